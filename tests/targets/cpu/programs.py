"""Programs, and what the model of XLA's CPU compiler stores of them."""

from __future__ import annotations

from hloom.formats.hlo import parse
from hloom.targets.cpu import simulate_buffers

BIG = "f32[256,256]"
SUM = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
LARGEST = SUM.replace("add", "largest", 1).replace(" add(", " maximum(")


def program(*lines: str, header: str = "") -> str:
    """The text of a module with these lines as its entry, and a reducer `add`."""
    return f"HloModule m{header}\n{SUM}\nENTRY main {{\n" + "\n".join(lines) + "\n}\n"


def stored(text: str) -> list[str]:
    """The instructions whose results are stored, in order; without scalars, parameters and results."""
    module = parse(text)
    values = simulate_buffers(module).values
    root = module.entry.root
    outside = {*module.entry.parameters, root, *(root.operands if root.opcode == "tuple" else ())}
    pointers = set(values.tables.values())
    rows = zip(values.nodes, values.starts, values.sizes, strict=True)
    starts = {node: start for number, (node, start, size) in enumerate(rows) if size > 4 and number not in pointers}
    return [node.name for node in sorted(starts, key=lambda node: starts[node]) if node not in outside]


def schedule(text: str) -> list[str]:
    """The instructions in order of running, without parameters and constants."""
    steps = simulate_buffers(parse(text)).steps
    return [node.name for node in steps if node.opcode not in ("parameter", "constant")]


ATTENTION = """
  x = f32[8,128,256] parameter(0)
  w = f32[256,256] parameter(1)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  p = f32[8,128,256] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  h = f32[8,128,4,64] reshape(p)
  q = f32[8,4,128,64] transpose(h), dimensions={0,2,1,3}
  s = f32[8,4,128,128] dot(q, q), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3}
  m = f32[8,4,128] reduce(s, low), dimensions={3}, to_apply=largest
  mb = f32[8,4,128,128] broadcast(m), dimensions={0,1,2}
  d = f32[8,4,128,128] subtract(s, mb)
  e = f32[8,4,128,128] exponential(d)
  t = f32[8,4,128] reduce(e, zero), dimensions={3}, to_apply=add
  tb = f32[8,4,128,128] broadcast(t), dimensions={0,1,2}
  a = f32[8,4,128,128] divide(e, tb)
  o = f32[8,4,128,64] dot(a, q), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
  b = f32[8,128,4,64] transpose(o), dimensions={0,2,1,3}
  c = f32[8,128,256] reshape(b)
  g = f32[256,256] dot(c, x), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
  n = f32[256,256] subtract(w, g)
  ROOT r = (f32[256,256], f32[]) tuple(n, zero)
"""
CONVOLUTION = """
  x = f32[8,16,16,32] parameter(0)
  k = f32[3,3,32,32] parameter(1)
  zero = f32[] constant(0)
  y = f32[8,16,16,32] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  a = f32[8,16,16,32] tanh(y)
  g = f32[3,3,32,32] convolution(x, a), window={size=16x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf
  n = f32[3,3,32,32] subtract(k, g)
  ROOT r = (f32[3,3,32,32], f32[]) tuple(n, zero)
"""
