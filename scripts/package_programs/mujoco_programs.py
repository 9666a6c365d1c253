"""Steps, queries and derivatives of MJX, MuJoCo's simulator in jax."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mujoco  # pyright: ignore[reportMissingImports]
from mujoco import mjx  # pyright: ignore[reportMissingImports]

from .jax_calls import floats, texts
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)

PENDULUM = """
<mujoco><option timestep="0.01" integrator="{integrator}"/><worldbody>
  <body><joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/><geom type="capsule" size="0.05 0.5" contype="0"/>
    <body pos="0 0 1"><joint type="hinge" axis="0 1 0"/><geom type="capsule" size="0.05 0.5" contype="0"/></body></body>
</worldbody><actuator><motor joint="hinge" gear="2"/></actuator></mujoco>
"""
SPHERES = """
<mujoco><option timestep="0.005" solver="{solver}" iterations="3" ls_iterations="4"/>
<asset><material name="plain" rgba="1 0 0 1"/></asset><worldbody>
  <geom type="plane" size="3 3 0.1"/>
  <body pos="0 0 0.3"><freejoint/><geom type="sphere" size="0.2"/></body>
  <body pos="0.1 0 0.8"><freejoint/><geom type="sphere" size="0.2"/></body>
</worldbody></mujoco>
"""
BOXES = """
<mujoco><option timestep="0.005" iterations="1" ls_iterations="2"/><worldbody>
  <geom type="plane" size="3 3 0.1"/>
  <body pos="0 0 0.3"><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body>
</worldbody></mujoco>
"""
ARM = """
<mujoco><option timestep="0.01"/><worldbody><light pos="0 0 3"/>
  <body><joint name="a" type="hinge" axis="0 0 1" range="-90 90" limited="true"/>
    <geom type="box" size="0.3 0.05 0.05" pos="0.3 0 0" contype="0" conaffinity="0"/>
    <body pos="0.6 0 0"><joint name="b" type="slide" axis="1 0 0" stiffness="4"/>
      <geom type="box" size="0.1 0.05 0.05" contype="0" conaffinity="0"/><site name="tip" pos="0.1 0 0"/>
      <body pos="0.2 0 0"><joint name="c" type="ball"/>
        <geom type="sphere" size="0.1" contype="0" conaffinity="0"/></body>
    </body></body></worldbody>
  <equality><joint joint1="a" joint2="b" polycoef="0 0.5 0 0 0"/></equality>
  <tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="-2"/></fixed></tendon>
  <actuator><position joint="a" kp="10"/><velocity joint="b" kv="2"/>
    <general tendon="t" dyntype="filter" dynprm="0.1"/></actuator>
  <sensor><jointpos joint="a"/><framepos objtype="site" objname="tip"/><gyro site="tip"/>
    <accelerometer site="tip"/></sensor>
</mujoco>
"""


def _model(text: str) -> tuple[Any, Any]:
    model = mjx.put_model(mujoco.MjModel.from_xml_string(text))
    return model, jax.eval_shape(lambda: mjx.make_data(model))


def _step(text: str) -> Call:
    model, data = _model(text)
    return partial(mjx.step, model), (data,)


@program
def step_euler() -> Call:
    return _step(PENDULUM.format(integrator="Euler"))


@program
def step_runge_kutta() -> Call:
    return _step(PENDULUM.format(integrator="RK4"))


@program
def step_implicit() -> Call:
    return _step(PENDULUM.format(integrator="implicitfast"))


@program
def step_spheres_newton() -> Call:
    return _step(SPHERES.format(solver="Newton"))


@program
def step_spheres_conjugate_gradients() -> Call:
    return _step(SPHERES.format(solver="CG"))


@program
def step_box_on_plane() -> Call:
    return _step(BOXES)


@program
def step_arm_with_sensors() -> Call:
    return _step(ARM)


@program
def kinematics_of_batch() -> Call:
    model, data = _model(ARM)

    def positions(data: Any, angles: Any) -> Any:
        return jax.vmap(lambda angle: mjx.kinematics(model, data.replace(qpos=angle)).xpos)(angles)

    return positions, (data, floats(8, model.nq))


@program
def inverse_dynamics() -> Call:
    model, data = _model(PENDULUM.format(integrator="Euler"))
    return partial(mjx.inverse, model), (data,)


@program
def jacobian_of_site() -> Call:
    model, data = _model(ARM)
    return (lambda data, point: mjx.jac(model, mjx.com_pos(model, mjx.kinematics(model, data)), point, 2)), (
        data,
        floats(3),
    )


@program
def rays() -> Call:
    model, data = _model(SPHERES.format(solver="CG"))

    def distances(data: Any, points: Any, directions: Any) -> Any:
        data = mjx.kinematics(model, data)
        return jax.vmap(lambda point, direction: mjx.ray(model, data, point, direction))(points, directions)

    return distances, (data, floats(4, 3), floats(4, 3))


@program
def controls_by_gradient() -> Call:
    """The derivative of where a pendulum ends by its controls, through a scan of steps."""
    model, data = _model(PENDULUM.format(integrator="Euler"))

    def loss(controls: Any, data: Any) -> Any:
        def step(data: Any, control: Any) -> Any:
            return mjx.step(model, data.replace(ctrl=control)), None

        return jnp.sum(jax.lax.scan(step, data, controls)[0].qpos ** 2)

    return jax.value_and_grad(loss), (floats(5, model.nu), data)
