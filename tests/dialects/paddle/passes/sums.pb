
sumsá
;

Xx

Yy
Outelementwise_add_0elementwise_add
K

Xelementwise_add_0

Yz
Outelementwise_add_1elementwise_add!

Xxyz
Outsum_0sum
xx
yy
zz
elementwise_add_1sum_0