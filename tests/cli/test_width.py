"""What commands print fits the line that COLUMNS says, in a pipe too: names whole, columns elided or left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from hloom.cli import main
from hloom.cli.main import COMMANDS as SUBCOMMANDS
from hloom.cli.tables import WIDTH

LONG = "transformer_layer_0.self_attention.fused"
"""A name of 40 characters, as XLA's are."""
SCOPE = f"jit(train_step)/jvp(Transformer)/{LONG}/dot_general"
WHERE = f'metadata={{op_name="{SCOPE}" source_file="/home/user/models/transformer/{LONG}.py" source_line=1234}}'
MODULE = f"""HloModule step_of_{LONG}
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
fused_of_{LONG} {{
  p = f32[1024,2048] parameter(0)
  q = f32[1024,2048] tanh(p)
  ROOT r = f32[1024,2048] multiply(q, p)
}}
body_of_{LONG} {{
  s = (s32[], f32[1024,2048]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[1024,2048] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  n = f32[1024,2048] all-reduce(v), replica_groups={{{{0,1}}}}, to_apply=sum, {WHERE}
  ROOT t = (s32[], f32[1024,2048]) tuple(j, n)
}}
condition_of_{LONG} {{
  s = (s32[], f32[1024,2048]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(7)
  ROOT less = pred[] compare(i, limit), direction=LT
}}
ENTRY main {{
  input_of_{LONG} = f32[1024,512] parameter(0)
  weight_of_{LONG} = f32[512,2048] parameter(1)
  {LONG}.1 = f32[1024,2048] dot(input_of_{LONG}, weight_of_{LONG}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {WHERE}
  {LONG}.2 = f32[1024,2048] fusion({LONG}.1), kind=kLoop, calls=fused_of_{LONG}, {WHERE}
  {LONG}.3 = f32[1024,2048] custom-call({LONG}.2), custom_call_target="target_of_{LONG}", {WHERE}
  zero = s32[] constant(0)
  state = (s32[], f32[1024,2048]) tuple(zero, {LONG}.3)
  loop_of_{LONG} = (s32[], f32[1024,2048]) while(state), condition=condition_of_{LONG}, body=body_of_{LONG}
  ROOT result_of_{LONG} = f32[1024,2048] get-tuple-element(loop_of_{LONG}), index=1
}}
"""
SIMPLE = f"""HloModule step_of_{LONG}
ENTRY main {{
  input_of_{LONG} = f32[128,64] parameter(0)
  weight_of_{LONG} = f32[64,256] parameter(1)
  second_weight_of_{LONG} = f32[256,32] parameter(2)
  {LONG}.1 = f32[128,256] dot(input_of_{LONG}, weight_of_{LONG}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {WHERE}
  zero = f32[] constant(0)
  zeros = f32[128,256] broadcast(zero), dimensions={{}}
  {LONG}.2 = f32[128,256] maximum({LONG}.1, zeros), {WHERE}
  {LONG}.3 = f32[128,256] negate({LONG}.2)
  {LONG}.4 = f32[128,256] negate({LONG}.3)
  ROOT {LONG}.5 = f32[128,32] dot({LONG}.4, second_weight_of_{LONG}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {WHERE}
}}
"""
COMMANDS = (
    "inspect module.hlo",
    "inspect module.hlo --all",
    "cost module.hlo",
    "cost module.hlo --by scope --depth 4",
    "cost module.hlo --by source",
    "roofline module.hlo --device h100",
    "roofline module.hlo --device h100 --by scope",
    "roofline --list",
    "fusions module.hlo --device h100",
    "memory module.hlo --schedule list",
    "memory module.hlo --schedule list --budget 1MiB",
    "why-oom simple.hlo --memory 64KiB",
    "propagate simple.hlo --mesh data=2 --set input_of_{LONG}:0=data --all",
    "plan simple.hlo --mesh data=2,model=2",
    "plan simple.hlo --mesh data=2,model=2 --explain",
    "pipeline simple.hlo --devices 1",
    "diff module.hlo simple.hlo",
    "diff simple.hlo changed.hlo",
    "fit simple.hlo --devices 2 --batch input_of_{LONG}:0",
    "opt --list",
    "opt --list-rules simplify",
    "opt simple.hlo -p simplify --report -o out.hlo",
    "opt simple.hlo -p simplify --steps -o out.hlo",
    "quantize simple.hlo --only weight_of_{LONG}",
    "prune simple.hlo --only weight_of_{LONG}",
    "evaluate simple.hlo",
    "run simple.hlo",
    "passes dump",
    "--help",
    *(f"{name} --help" for name in SUBCOMMANDS),
)


def fits(text: str, line: int) -> bool:
    """Whether each line is short enough, but for commands that are to be pasted."""
    return all(cell_len(shown) <= line or re.match(r"\d+: hloom ", shown) for shown in text.splitlines())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the programs that the commands name."""
    monkeypatch.chdir(tmp_path)
    Path("module.hlo").write_text(MODULE)
    Path("simple.hlo").write_text(SIMPLE)
    Path("changed.hlo").write_text(SIMPLE.replace("negate", "sine"))
    Path("dump").mkdir()
    states = ("before_optimizations", "0001.simplification.after_algsimp.before_dce", "cpu_after_optimizations")
    for state, text in zip(states, (SIMPLE, SIMPLE, MODULE), strict=True):
        Path(f"dump/module_0001.jit_step.{state}.txt").write_text(text)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS)
def test_output_fits_eighty_columns(command: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(main, command.replace("{LONG}", LONG).split())
    assert result.exit_code in (0, 1), result.output
    assert result.output
    assert fits(result.output, 80), result.output


@pytest.mark.usefixtures("folder")
def test_names_are_whole_and_what_is_left_out_is_named(monkeypatch: pytest.MonkeyPatch):
    texts = {}
    for columns in ("60", "80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        texts[columns] = CliRunner().invoke(main, ["roofline", "module.hlo", "--device", "h100"]).stdout
        assert fits(texts[columns], int(columns))
    assert f"{LONG}.2" in texts["300"]
    assert "columns that do not fit" not in texts["300"]
    assert LONG[:36] in texts["80"], "a name goes on in the next line"
    assert "columns that do not fit: " in texts["80"]


@pytest.mark.usefixtures("folder")
def test_a_pipe_without_columns_has_tables_of_the_usual_width(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    result = CliRunner().invoke(main, ["inspect", "module.hlo"])
    assert fits(result.stdout, WIDTH)
    assert not fits(result.stdout, 80)
