"""Paddle's static programs and passes: its op rows, programs in and out, and `RegisterPass` as Paddle has it.

    from hloom.dialects.paddle import InputSpec, PassDesc, RegisterPass, get_pass, read_program, to_multi_pass_desc

To add an op that Paddle has, edit `ops.toml`; to teach the type of what one yields, add a function to `inferring.py`.
`declare_op` makes a custom op known.
"""

from hloom.dialects.paddle.reading import read_program as read_program
from hloom.dialects.paddle.reading_rules import from_multi_pass_desc as from_multi_pass_desc
from hloom.dialects.paddle.register import PASSES as PASSES
from hloom.dialects.paddle.register import Pass as Pass
from hloom.dialects.paddle.register import RegisterPass as RegisterPass
from hloom.dialects.paddle.register import RegisterPassHelper as RegisterPassHelper
from hloom.dialects.paddle.register import get_pass as get_pass
from hloom.dialects.paddle.rows import ROWS as ROWS
from hloom.dialects.paddle.signatures import declare_op as declare_op
from hloom.dialects.paddle.signatures import signature as signature
from hloom.dialects.paddle.tracing import InputSpec as InputSpec
from hloom.dialects.paddle.tracing import ParamAttr as ParamAttr
from hloom.dialects.paddle.tracing import PassDesc as PassDesc
from hloom.dialects.paddle.writing import write_program as write_program
from hloom.dialects.paddle.writing_rules import to_multi_pass_desc as to_multi_pass_desc
from hloom.dialects.paddle.writing_rules import unhonoured as unhonoured
