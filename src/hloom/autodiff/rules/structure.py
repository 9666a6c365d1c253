"""Ops that the engine itself handles, and ops without a derivative."""

from hloom.autodiff.table import none, structural, zero

structural(
    "tuple get-tuple-element call fusion while conditional async-start async-update async-done copy opt-barrier domain "
    "add-dependency"
)
zero("after-all", because="a token is not a number")
zero(
    "rng rng-bit-generator rng-get-and-update-state",
    because="random numbers are drawn without regard to what they are used for",
)
none("infeed recv recv-done", because="what arrives is not computed here")
none("outfeed send send-done", because="what leaves is not known to come back")
zero("partition-id replica-id", because="its result is not a floating-point number")
