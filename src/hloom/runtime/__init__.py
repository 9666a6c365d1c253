"""Running programs on XLA's CPU client, and asking XLA about them; the only room that needs jax.

`run` runs a module or a text, `compare` says where two runs differ, `oracle`'s questions (`canonical`, `accepts`,
`cost`, ...) ask XLA about a text. XLA lives in a child process, so that what makes it crash raises an error here.
jax is imported there only; nothing needs it until something is run. `jit` and `inside_jit` change programs of jax's on
their way to XLA, and `auto_shard` spreads them over devices, in this process.

To teach the runtime an op that XLA's client refuses, edit `legalise.py` (`bitcasts.py`, `decompose.py`); to ask XLA
something new, write the call in `xla.py`, the request in `worker.py` and the question in `oracle.py`; to follow
another jax version, edit `xla.py`, the one file that uses jaxlib's private names.
"""

from hloom.runtime.auto_shard import AutoShard as AutoShard
from hloom.runtime.auto_shard import Sharded as Sharded
from hloom.runtime.auto_shard import Spread as Spread
from hloom.runtime.auto_shard import auto_shard as auto_shard
from hloom.runtime.auto_shard import leaves as leaves
from hloom.runtime.auto_shard import partition_specs as partition_specs
from hloom.runtime.change import Change as Change
from hloom.runtime.change import RewriteError as RewriteError
from hloom.runtime.compare import Difference as Difference
from hloom.runtime.compare import compare as compare
from hloom.runtime.compare import first_difference as first_difference
from hloom.runtime.inputs import Inputs as Inputs
from hloom.runtime.inputs import random_inputs as random_inputs
from hloom.runtime.inside_jit import inside_jit as inside_jit
from hloom.runtime.jit import jit as jit
from hloom.runtime.legalise import legalise as legalise
from hloom.runtime.npz import load_arrays as load_arrays
from hloom.runtime.npz import save_arrays as save_arrays
from hloom.runtime.oracle import Signature as Signature
from hloom.runtime.oracle import accepts as accepts
from hloom.runtime.oracle import canonical as canonical
from hloom.runtime.oracle import compiles as compiles
from hloom.runtime.oracle import cost as cost
from hloom.runtime.oracle import for_each as for_each
from hloom.runtime.oracle import memory as memory
from hloom.runtime.oracle import printed as printed
from hloom.runtime.oracle import signature as signature
from hloom.runtime.process import XlaCrash as XlaCrash
from hloom.runtime.process import XlaError as XlaError
from hloom.runtime.process import close as close
from hloom.runtime.run import OutputRow as OutputRow
from hloom.runtime.run import RunResult as RunResult
from hloom.runtime.run import placement_of as placement_of
from hloom.runtime.run import run as run
from hloom.runtime.run import run_each as run_each
from hloom.runtime.run import run_text as run_text
from hloom.runtime.shardy import shardy_text as shardy_text
from hloom.runtime.xla import Placement as Placement
