"""Execution on XLA's CPU client, queries to XLA, and transformations inside `jax.jit`; the only package that needs jax.

`run` runs a module or a text, `compare` reports where two runs differ, and `xla_queries` (`canonical`, `accepts`,
`cost`, ...) ask XLA about a text. XLA runs in a child process, so a program that crashes it raises an error here
(`worker_client.py`); jax is imported only there, when something runs. `jit` and `inside_jit` transform jax programs on
their way to XLA, `auto_shard` shards them over devices, and a `DeviceGroup` runs modules on some devices, in this
process.

To add an op that XLA's client rejects, edit `legalization.py` (`bitcast_expander.py`, `op_expanders.py`); for a new
query to XLA, write the call in `xla.py`, the request in `worker.py` and the query in `xla_queries.py`; for another jax
version, edit `xla.py` and `jax_internals.py`, the two files that use private names of jaxlib and jax.
"""

from hloom.runtime.arbitration import Arbitration as Arbitration
from hloom.runtime.arbitration import ProgramRun as ProgramRun
from hloom.runtime.arbitration import arbitrate as arbitrate
from hloom.runtime.array_rows import ArrayRows as ArrayRows
from hloom.runtime.array_rows import join_rows as join_rows
from hloom.runtime.array_rows import take_rows as take_rows
from hloom.runtime.calibration import MeasuredRates as MeasuredRates
from hloom.runtime.calibration import calibrate as calibrate
from hloom.runtime.comparison import Difference as Difference
from hloom.runtime.comparison import compare as compare
from hloom.runtime.comparison import first_difference as first_difference
from hloom.runtime.device_comparison import DeviceComparison as DeviceComparison
from hloom.runtime.device_comparison import compare_with_one_device as compare_with_one_device
from hloom.runtime.device_group import DeviceGroup as DeviceGroup
from hloom.runtime.device_group import Split as Split
from hloom.runtime.device_group import device_groups as device_groups
from hloom.runtime.device_group import uses_shardy as uses_shardy
from hloom.runtime.differentiation import Derivatives as Derivatives
from hloom.runtime.differentiation import differentiable as differentiable
from hloom.runtime.function_gradients import JaxGradients as JaxGradients
from hloom.runtime.function_lowering import lowered_function as lowered_function
from hloom.runtime.fused_kernels import KernelCheck as KernelCheck
from hloom.runtime.fused_kernels import check_kernels as check_kernels
from hloom.runtime.fused_kernels import run_kernels as run_kernels
from hloom.runtime.input_domains import InputDomain as InputDomain
from hloom.runtime.input_domains import input_domains as input_domains
from hloom.runtime.inputs import Inputs as Inputs
from hloom.runtime.inputs import check_inputs as check_inputs
from hloom.runtime.inputs import random_array as random_array
from hloom.runtime.inputs import random_inputs as random_inputs
from hloom.runtime.inside_jit import Stage as Stage
from hloom.runtime.inside_jit import inside_jit as inside_jit
from hloom.runtime.jax_arrays import call_host as call_host
from hloom.runtime.jax_arrays import call_host_with_largest as call_host_with_largest
from hloom.runtime.jax_arrays import halves as halves
from hloom.runtime.jax_arrays import has_64_bits as has_64_bits
from hloom.runtime.jax_arrays import is_weak as is_weak
from hloom.runtime.jax_arrays import jax_arrays as jax_arrays
from hloom.runtime.jax_arrays import result_array as result_array
from hloom.runtime.jax_shardings import hlo_mesh as hlo_mesh
from hloom.runtime.jit_rewrite import jit as jit
from hloom.runtime.legalization import legalize as legalize
from hloom.runtime.legalization import parameter_names as parameter_names
from hloom.runtime.legalization import text_for_xla as text_for_xla
from hloom.runtime.library_calls import JaxTracing as JaxTracing
from hloom.runtime.library_calls import callable_of as callable_of
from hloom.runtime.library_calls import compiled as compiled
from hloom.runtime.npz import StoredArray as StoredArray
from hloom.runtime.npz import load_arrays as load_arrays
from hloom.runtime.npz import open_arrays as open_arrays
from hloom.runtime.npz import save_arrays as save_arrays
from hloom.runtime.program_trees import ProgramTrees as ProgramTrees
from hloom.runtime.program_trees import checked_argument as checked_argument
from hloom.runtime.run import OutputRow as OutputRow
from hloom.runtime.run import RunResult as RunResult
from hloom.runtime.run import compiled_in_child as compiled_in_child
from hloom.runtime.run import output_rows as output_rows
from hloom.runtime.run import placement_of as placement_of
from hloom.runtime.run import run as run
from hloom.runtime.run import run_per_device as run_per_device
from hloom.runtime.run import run_text as run_text
from hloom.runtime.sharded_jit import AutoShard as AutoShard
from hloom.runtime.sharded_jit import ProgramShardings as ProgramShardings
from hloom.runtime.sharded_jit import ShardedFunction as ShardedFunction
from hloom.runtime.sharded_jit import auto_shard as auto_shard
from hloom.runtime.sharded_jit import leaves as leaves
from hloom.runtime.sharded_jit import partition_specs as partition_specs
from hloom.runtime.stablehlo import from_stablehlo as from_stablehlo
from hloom.runtime.transformation import RewriteError as RewriteError
from hloom.runtime.transformation import Transformation as Transformation
from hloom.runtime.transformation import location_of as location_of
from hloom.runtime.worker_client import LONGEST_SECONDS as LONGEST_SECONDS
from hloom.runtime.worker_client import XlaCrash as XlaCrash
from hloom.runtime.worker_client import XlaError as XlaError
from hloom.runtime.worker_client import close as close
from hloom.runtime.worker_client import xla_flags as xla_flags
from hloom.runtime.xla import Placement as Placement
from hloom.runtime.xla_queries import Compiled as Compiled
from hloom.runtime.xla_queries import ProgramSignature as ProgramSignature
from hloom.runtime.xla_queries import accepts as accepts
from hloom.runtime.xla_queries import canonical as canonical
from hloom.runtime.xla_queries import compiles as compiles
from hloom.runtime.xla_queries import cost as cost
from hloom.runtime.xla_queries import embeddable_stablehlo as embeddable_stablehlo
from hloom.runtime.xla_queries import memory as memory
from hloom.runtime.xla_queries import partition as partition
from hloom.runtime.xla_queries import printed as printed
from hloom.runtime.xla_queries import shardy_text as shardy_text
from hloom.runtime.xla_queries import signature as signature
