"""What a module's borders become when it is put into another program: before and after."""

import hloom
from hloom.runtime.lowered_shardings import insert_sharding_calls


def test_the_sharding_of_a_parameter_goes_to_a_value_wherever_the_parameter_stands():
    module = hloom.parse(
        """ENTRY e {
             x = f32[8] parameter(0)
             n = f32[8] negate(x)
             y = f32[8] parameter(1), sharding={devices=[2]<=[2]}
             ROOT s = f32[8] add(n, y)
           }"""
    )
    insert_sharding_calls(module, "test")
    wanted = """ENTRY e {
                  x = f32[8] parameter(0)
                  n = f32[8] negate(x)
                  y = f32[8] parameter(1)
                  c = f32[8] custom-call(y), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
                  ROOT s = f32[8] add(n, c)
                }"""
    assert hloom.difference(module.entry, hloom.parse(wanted).entry) is None
    hloom.verify(module)
