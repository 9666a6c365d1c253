"""Result types and axis maps of nodes; see `hloom.ir.inference`."""

from hloom.ir.inference import arguments as arguments
from hloom.ir.inference import infer_axes as infer_axes
from hloom.ir.inference import infer_type as infer_type
from hloom.ir.inference import node_axes as node_axes
