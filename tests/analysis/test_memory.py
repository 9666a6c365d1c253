"""What the report says of a program beside its peak, and what tests and the command line make of it.

Covers `cli/memory.py`, `cli/plots/memory.py`.
"""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import hloom
from hloom.cli import main
from hloom.targets.memory import memory
from hloom.testing import assert_peak_memory
from tests.helpers.work import calls, growth

STEP = """HloModule step, is_scheduled=true

ENTRY main {
  weights = f32[512,512] parameter(0), metadata={op_name="weights"}
  x = f32[512,512] parameter(1), metadata={op_name="x"}
  hidden = f32[512,512] dot(x, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/mlp/dot" source_file="/home/me/model.py" source_line=12}
  active = f32[512,512] tanh(hidden), metadata={op_name="jit(f)/mlp/tanh" source_file="/home/me/model.py" source_line=13}
  gradient = f32[512,512] dot(active, hidden), lhs_contracting_dims={0}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/mlp/backward" source_file="/home/me/model.py" source_line=14}
  ROOT updated = f32[512,512] subtract(weights, gradient), metadata={op_name="jit(f)/update" source_file="/home/me/model.py" source_line=15}
}
"""
M = 2**20


@pytest.fixture
def step(tmp_path: Path) -> Path:
    path = tmp_path / "step.hlo"
    path.write_text(STEP)
    return path


def call(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_peak_and_what_is_alive_then():
    usage = memory(hloom.parse(STEP))
    assert (usage.peak, usage.arguments, usage.outputs, usage.temporaries) == (5 * M, 2 * M, M, 2 * M)
    assert (usage.peak_instruction, usage.peak_time, usage.length) == ("gradient", 4, 6)
    alive = {(buffer.name, buffer.role, buffer.bytes) for buffer in usage.at_peak}
    assert alive == {
        ("weights", "argument", M), ("x", "argument", M), ("hidden", "output", M),
        ("gradient", "temporary", M), ("active", "temporary", M),
    }  # fmt: skip
    active = next(buffer for buffer in usage.at_peak if buffer.name == "active")
    assert (active.scope, active.source, active.start, active.end) == (
        "mlp", "/home/me/model.py:13", 3, 4,
    )  # fmt: skip


def test_the_timeline():
    usage = memory(hloom.parse(STEP))
    assert [bytes // M for _, bytes in usage.timeline] == [3, 3, 3, 4, 5, 4]
    assert max(bytes for _, bytes in usage.timeline) == usage.peak


def test_long_timelines_are_thinned_out_but_keep_their_peak():
    lines = [f"  v{i + 1} = f32[4] negate(v{i})" for i in range(9000)]
    text = "\n".join(["HloModule m, is_scheduled=true", "ENTRY e {", "  v0 = f32[4] parameter(0)", *lines])
    usage = memory(hloom.parse(f"{text}\n  ROOT r = f32[4] sine(v9000)\n}}\n"))
    assert 1000 < len(usage.timeline) <= 2000
    assert max(bytes for _, bytes in usage.timeline) == usage.arguments + usage.outputs + usage.live


def test_inputs_that_could_be_donated():
    (donation,) = memory(hloom.parse(STEP)).donatable
    assert (donation.parameter, donation.name, donation.bytes, donation.output_index, donation.is_free) == (
        0,
        "weights",
        M,
        (),
        True,
    )
    assert memory(hloom.parse(STEP)).donatable_bytes == 0  # the output's memory is in use all the time as it is
    donated = STEP.replace("is_scheduled=true", "is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }")
    after = memory(hloom.parse(donated))
    assert (after.donatable, after.aliases, after.peak) == ((), M, 5 * M)


def test_what_donating_saves():
    text = "HloModule m, is_scheduled=true\nENTRY e { x = f32[256] parameter(0)\n ROOT y = f32[256] sine(x) }"
    usage = memory(hloom.parse(text))
    assert (usage.peak, usage.donatable_bytes) == (2048, 1024)


def test_an_input_that_is_still_read_is_no_free_gift():
    text = """HloModule m, is_scheduled=true
    ENTRY e {
      x = f32[256] parameter(0)
      y = f32[256] reverse(x), dimensions={0}
      z = s32[256] convert(x)
      ROOT t = (f32[256], s32[256]) tuple(y, z)
    }"""
    usage = memory(hloom.parse(text))
    assert [(donation.name, donation.is_free) for donation in usage.donatable] == [("x", False)]
    assert usage.donatable_bytes == 0


def test_what_would_have_to_shrink():
    usage = memory(hloom.parse(STEP))
    assert not usage.fits(4 * M)
    assert usage.fits(5 * M)
    assert len(usage.to_shrink(4 * M)) == 1
    assert len(usage.to_shrink(2 * M + 1)) == 3
    assert usage.to_shrink(5 * M) == ()


def test_a_module_without_instructions_of_its_own():
    usage = memory(hloom.parse("HloModule m, is_scheduled=true\nENTRY e { ROOT x = f32[256] parameter(0) }"))
    assert (usage.arguments, usage.outputs, usage.temporaries) == (1024, 1024, 0)


def test_sizes_that_no_machine_has_are_refused():
    text = "ENTRY e { x = f32[1099511627776,1099511627776] parameter(0)\n ROOT y = f32[] constant(0) }"
    with pytest.raises(hloom.HloomError, match="more bytes than 63 bits count"):
        memory(hloom.parse(text))


@pytest.mark.parametrize(
    "header", ["", ", buffer_donor={ (7, {}) }", ", input_output_alias={ {}: (7, {}, may-alias) }"]
)
def test_parameters_that_are_not_there(header: str):
    text = (
        f"HloModule m, is_scheduled=true{header}\nENTRY e {{ x = f32[256] parameter(2)\n ROOT y = f32[256] sine(x) }}"
    )
    assert memory(hloom.parse(text)).peak == 2048


def test_deep_nesting_takes_no_recursion():
    calls = ["g0 { p = f32[4] parameter(0)\n ROOT r = f32[4] negate(p) }"]
    calls += [
        f"g{i} {{ p = f32[4] parameter(0)\n ROOT r = f32[4] call(p), to_apply=g{i - 1} }}" for i in range(1, 3000)
    ]
    entry = "ENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] call(x), to_apply=g2999 }"
    usage = memory(hloom.parse("\n".join(["HloModule m, is_scheduled=true", *calls, entry])))
    assert (usage.peak, usage.opaque_calls) == (32, 0)


def test_calls_that_multiply_are_not_followed_for_ever():
    calls = ["g0 { p = f32[4] parameter(0)\n ROOT r = f32[4] negate(p) }"]
    twice = "g{0} {{ p = f32[4] parameter(0)\n a = f32[4] call(p), to_apply=g{1}\n ROOT r = f32[4] call(a), to_apply=g{1} }}"
    calls += [twice.format(i, i - 1) for i in range(1, 60)]
    entry = "ENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] call(x), to_apply=g59 }"
    usage = memory(hloom.parse("\n".join(["HloModule m, is_scheduled=true", *calls, entry])))
    assert usage.opaque_calls > 0


def test_assert_peak_memory():
    module = hloom.parse(STEP)
    assert_peak_memory(module, at_most="5MiB")
    assert_peak_memory(module, at_most=5 * M)
    message = (
        "step takes 5,242,880 bytes, more than 4,194,304, at gradient:\n"
        "  1,048,576 bytes, argument: main/weights = f32[512,512] parameter  (unknown)\n"
    )
    with pytest.raises(AssertionError, match=re.escape(message)) as caught:
        assert_peak_memory(module, at_most="4MiB")
    assert "main/active = f32[512,512] tanh  /home/me/model.py:13" in str(caught.value)


def test_command(step: Path):
    result = call("memory", step)
    assert result.exit_code == 0
    for word in ("5,242,880", "5.0 MiB", "▲ gradient", "active", "model.py:13", "mlp", "could be donated"):
        assert word in result.stdout


def test_command_with_a_budget(step: Path):
    fits = call("memory", step, "--budget", "6MiB")
    assert (fits.exit_code, "fits into 6.0 MiB with 1.0 MiB to spare" in fits.stdout) == (0, True)
    tight = call("memory", step, "--budget", "3MiB")
    assert tight.exit_code == 1
    for words in ("does not fit: exceeds 3.0 MiB by 2.0 MiB", "freeing these would be enough"):
        assert words in tight.stdout


def test_command_as_json(step: Path, tmp_path: Path):
    result = call("memory", step, "--json", "--budget", "3MiB", "--schedule", "text")
    value = json.loads(result.stdout)
    assert (result.exit_code, value["fits"], value["peak"], value["schedule"]) == (1, False, 5 * M, "text")
    assert call("memory", step, "--json", "-o", tmp_path / "x.json").exit_code == 0
    assert json.loads((tmp_path / "x.json").read_text())["at_peak"][0]["bytes"] == M


def test_command_draws_svg(step: Path, tmp_path: Path):
    result = call("memory", step, "-o", tmp_path / "x.svg", "--budget", "1GB")
    assert result.exit_code == 0
    picture = (tmp_path / "x.svg").read_text()
    assert picture.startswith("<svg")
    assert "budget 953.7 MiB" in picture


def test_command_draws_png_or_says_what_is_missing(step: Path, tmp_path: Path):
    result = call("memory", step, "-o", tmp_path / "x.png")
    if result.exit_code:
        assert result.stderr == "error: a PNG needs matplotlib\n  pip install matplotlib, or write an .svg\n"
        assert not (tmp_path / "x.png").exists()
    else:
        assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("arguments", [("--budget", "much"), ("-o", "x.gif"), ("--schedule", "best")])
def test_command_refuses(step: Path, arguments: tuple[str, ...]):
    assert call("memory", step, *arguments).exit_code == 2


def chain(count: int) -> str:
    """Products and sums, each of the last result and of one up to 500 before."""
    lines = ["HloModule chain", "ENTRY e {", "  v0 = f32[16,16] parameter(0)"]
    for i in range(1, count):
        operands = f"v{i - 1}, v{max(0, i - 1 - i * i % 500)}"
        dims = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}" if i % 4 == 0 else ""
        lines.append(f"  v{i} = f32[16,16] {'add' if i % 4 else 'dot'}({operands}){dims}")
    return "\n".join([*lines, f"  ROOT r = f32[16,16] negate(v{count - 1})", "}"])


def calls_to_report(module: hloom.Module) -> int:
    return calls(lambda: memory(module))


def negations(count: int) -> hloom.Module:
    lines = [f"  v{i + 1} = f32[4] negate(v{i})" for i in range(count)]
    text = "\n".join(["HloModule m, is_scheduled=true", "ENTRY e {", "  v0 = f32[4] parameter(0)", *lines])
    return hloom.parse(f"{text}\n  ROOT r = f32[4] sine(v{count})\n}}\n")


def test_a_long_chain_in_one_buffer_takes_linear_work():
    assert memory(negations(1_000)).temporaries == 0
    assert growth(lambda count: calls_to_report(negations(count)), 1_000) < 1.2


def test_work_grows_as_the_program():
    assert growth(lambda count: calls_to_report(hloom.parse(chain(count))), 1_000) < 1.2
