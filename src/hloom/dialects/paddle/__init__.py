"""Paddle's static programs and passes: op rows, programs read and written, and `RegisterPass` as in Paddle.

    from hloom.dialects.paddle import InputSpec, PassDesc, RegisterPass, get_pass, read_program, to_multi_pass_desc

To add one of Paddle's ops, edit `ops.toml`; a function in `type_inference.py` infers its result type. `declare_op`
declares a custom op.
"""

from hloom.dialects.paddle.pass_reader import from_multi_pass_desc as from_multi_pass_desc
from hloom.dialects.paddle.pass_tracer import InputSpec as InputSpec
from hloom.dialects.paddle.pass_tracer import ParamAttr as ParamAttr
from hloom.dialects.paddle.pass_tracer import PassDesc as PassDesc
from hloom.dialects.paddle.pass_writer import to_multi_pass_desc as to_multi_pass_desc
from hloom.dialects.paddle.pass_writer import unhonoured as unhonoured
from hloom.dialects.paddle.program_reader import read_program as read_program
from hloom.dialects.paddle.program_writer import write_program as write_program
from hloom.dialects.paddle.register_pass import PASSES as PASSES
from hloom.dialects.paddle.register_pass import PaddlePass as PaddlePass
from hloom.dialects.paddle.register_pass import RegisterPass as RegisterPass
from hloom.dialects.paddle.register_pass import RegisterPassHelper as RegisterPassHelper
from hloom.dialects.paddle.register_pass import get_pass as get_pass
from hloom.dialects.paddle.rows import ROWS as ROWS
from hloom.dialects.paddle.signatures import declare_op as declare_op
from hloom.dialects.paddle.signatures import signature as signature
