"""Quantisation: programs whose weights are parameters of narrow types, and conversion of checkpoints for them.

    quantized = hloom.quantize(module, "int8")
    outputs = hloom.run(quantized.module, quantized.convert(arrays)).outputs

`dequantization.py` shows what the program looks like. To add an option, give it a field in `options.py`; to add a
number format, give it a row in `formats.py`; to let values pass through another opcode in their narrow type, write its
movement in `quantized_value.py`; to recognise weights through one, in `movement.py`; for another opcode that writes
caches, add it to `cache_flow.py`, and to `can_write` in `kv_cache.py`.
"""

from hloom.compress.quantization.accuracy import NumberedNoise as NumberedNoise
from hloom.compress.quantization.accuracy import ProductReport as ProductReport
from hloom.compress.quantization.accuracy import QuantizationReport as QuantizationReport
from hloom.compress.quantization.accuracy import compare_outputs as compare_outputs
from hloom.compress.quantization.accuracy import compare_products as compare_products
from hloom.compress.quantization.accuracy import compare_steps as compare_steps
from hloom.compress.quantization.accuracy import inputs_by_any_name as inputs_by_any_name
from hloom.compress.quantization.accuracy import numbered as numbered
from hloom.compress.quantization.accuracy import product_reports as product_reports
from hloom.compress.quantization.accuracy import random_arrays as random_arrays
from hloom.compress.quantization.accuracy import random_weights as random_weights
from hloom.compress.quantization.accuracy import report as report
from hloom.compress.quantization.arithmetic import QuantizedArray as QuantizedArray
from hloom.compress.quantization.arithmetic import quantize_array as quantize_array
from hloom.compress.quantization.calibration import CLIPPINGS as CLIPPINGS
from hloom.compress.quantization.calibration import PERCENTILE as PERCENTILE
from hloom.compress.quantization.checkpoint import check_suffix as check_suffix
from hloom.compress.quantization.checkpoint import load_checkpoint as load_checkpoint
from hloom.compress.quantization.checkpoint import save_checkpoint as save_checkpoint
from hloom.compress.quantization.dequantization import finish_program as finish_program
from hloom.compress.quantization.fake_quantization import FakeQuantization as FakeQuantization
from hloom.compress.quantization.fake_quantization import fake_quantize as fake_quantize
from hloom.compress.quantization.formats import FORMATS as FORMATS
from hloom.compress.quantization.formats import NumberFormat as NumberFormat
from hloom.compress.quantization.gptq import GptqRounder as GptqRounder
from hloom.compress.quantization.gptq import GptqRounding as GptqRounding
from hloom.compress.quantization.gptq import gptq as gptq
from hloom.compress.quantization.gptq import round_by_gptq as round_by_gptq
from hloom.compress.quantization.insertion_point import InsertionPoint as InsertionPoint
from hloom.compress.quantization.insertion_point import first_instruction as first_instruction
from hloom.compress.quantization.insertion_point import first_of as first_of
from hloom.compress.quantization.insertion_point import redirect as redirect
from hloom.compress.quantization.noise import Noise as Noise
from hloom.compress.quantization.options import ACTIVATIONS as ACTIVATIONS
from hloom.compress.quantization.options import GRANULARITIES as GRANULARITIES
from hloom.compress.quantization.options import OPCODES as OPCODES
from hloom.compress.quantization.options import SEARCH as SEARCH
from hloom.compress.quantization.options import KeywordsOf as KeywordsOf
from hloom.compress.quantization.options import QuantizationOptions as QuantizationOptions
from hloom.compress.quantization.options import SelectionOptions as SelectionOptions
from hloom.compress.quantization.parameter_names import ParameterNames as ParameterNames
from hloom.compress.quantization.parameter_names import checked_array as checked_array
from hloom.compress.quantization.quantization import Quantization as Quantization
from hloom.compress.quantization.quantization import QuantizedWeight as QuantizedWeight
from hloom.compress.quantization.quantize import check_program as check_program
from hloom.compress.quantization.quantize import quantize as quantize
from hloom.compress.quantization.quantize import quantize_with as quantize_with
from hloom.compress.quantization.quantized_cache import QuantizedCache as QuantizedCache
from hloom.compress.quantization.quantized_value import common_factors as common_factors
from hloom.compress.quantization.recipe import Recipe as Recipe
from hloom.compress.quantization.recipe import WeightFormat as WeightFormat
from hloom.compress.quantization.recipe import WeightSelection as WeightSelection
from hloom.compress.quantization.recipe import read_selection as read_selection
from hloom.compress.quantization.sensitivity import FORMATS_TO_TRY as FORMATS_TO_TRY
from hloom.compress.quantization.sensitivity import FormatChoice as FormatChoice
from hloom.compress.quantization.sensitivity import Sensitivity as Sensitivity
from hloom.compress.quantization.sensitivity import choose_formats as choose_formats
from hloom.compress.quantization.sensitivity import measure_sensitivities as measure_sensitivities
from hloom.compress.quantization.smooth_quant import SmoothedActivation as SmoothedActivation
from hloom.compress.quantization.smooth_quant import Smoothing as Smoothing
from hloom.compress.quantization.weight_slices import matrices as matrices
from hloom.compress.quantization.weight_slices import moved_positions as moved_positions
from hloom.compress.quantization.weight_slices import movements_to as movements_to
from hloom.compress.quantization.weights import Exclusion as Exclusion
from hloom.compress.quantization.weights import WeightUse as WeightUse
from hloom.compress.quantization.weights import select_weights as select_weights
from hloom.compress.quantization.weights import uses_of as uses_of
