"""What is a pipeline and what is not."""

import pytest

from hloom.distribute.pipeline import InvalidPlan, PipelinePlan, Schedule, Stage

FOUR = tuple(Stage(number, number, (number,)) for number in range(4))
ROUND = tuple(Stage(number, number, (number % 2,)) for number in range(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stage(3, 2, (0,)), "a stage of layers 3 to 2 has none"),
        (lambda: Stage(0, 2, ()), "layers 0 to 2 are on devices []"),
        (lambda: Stage(0, 2, (1, 1)), "layers 0 to 2 are on devices [1, 1]"),
        (lambda: PipelinePlan((), 1), "a pipeline without stages"),
        (lambda: PipelinePlan(FOUR, 0), "0 microbatches"),
        (lambda: PipelinePlan(FOUR[1:], 1), "stage 0 begins with layer 1"),
        (lambda: PipelinePlan(FOUR, 1, recompute=(True,)), "recompute has 1 entries for 4 stages"),
        (lambda: PipelinePlan((Stage(0, 0, (0,)), Stage(1, 1, (0, 1))), 1), "device 0 is in two stages"),
        (lambda: PipelinePlan(ROUND, 4), "4 stages on 2 groups of devices need the interleaved schedule"),
        (lambda: PipelinePlan(ROUND, 3, Schedule.INTERLEAVED), "3 microbatches interleaved over 2 groups"),
        (lambda: PipelinePlan(ROUND[:3], 2, Schedule.INTERLEAVED), "3 stages interleaved on 2 groups"),
        (
            lambda: PipelinePlan((*ROUND[:2], Stage(2, 2, (1,)), Stage(3, 3, (0,))), 2, Schedule.INTERLEAVED),
            "stage 2 is on devices [1]",
        ),
    ],
)
def test_what_is_no_pipeline(make, message: str):
    with pytest.raises(InvalidPlan) as raised:
        make()
    assert message in str(raised.value)
    assert raised.value.hint
