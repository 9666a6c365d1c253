
nothing_madeX
"

Xrelu_0
Outrelu_1relu


Xx
Outrelu_0relu
xx
relu_1x