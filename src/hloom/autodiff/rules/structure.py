"""Ops that the engine itself handles, and ops without a derivative."""

from hloom.autodiff.table import none, structural, zero

structural(
    "tuple get-tuple-element call fusion while conditional async-start async-update async-done copy opt-barrier domain "
    "add-dependency"
)
zero("after-all", because="a token is not a number")
zero(
    "rng rng-bit-generator rng-get-and-update-state",
    because="random numbers do not depend on their use",
)
none("infeed recv recv-done", because="the data is not computed here")
none("outfeed send send-done", because="it is unknown whether the data comes back")
zero("partition-id replica-id", because="its result is not a floating-point number")
