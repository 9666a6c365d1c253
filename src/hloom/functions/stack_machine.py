"""A loop with a stack that runs mutually recursive functions, which are split into blocks at their calls.

One step of the loop runs one block, chosen by a program counter. Values that outlive a block are in registers; a call
saves those of its function on the stack, a return brings them back. The stack has a fixed depth: where it is too small
the result holds the error number that the caller gave for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hloom.autodiff import Emitter
from hloom.ir import Graph, Module, Node, Parameter, TensorType, TupleType, Type, dtype, literal_of
from hloom.ops import OPS
from hloom.text import Unsupported

S32 = dtype("s32")
PREDICATE = dtype("pred")
HALT = -1


@dataclass(eq=False)
class _Register:
    """What keeps values that outlive their blocks: its number among the machine's registers, and its type."""

    number: int
    type: TensorType
    use: str


@dataclass(eq=False)
class _Function:
    """A function of the cycle: its entry block, and the registers of its parameters and results.

    A function that none of the cycle calls runs only at the bottom of the stack: nothing overwrites its registers.
    """

    graph: Graph
    entry: int
    parameters: list[_Register]
    results: list[_Register]
    is_outermost: bool
    taken: dict[_Register, None] = field(default_factory=dict)
    """The registers that hold what is still needed, at the point that is being compiled."""

    @property
    def use(self) -> str:
        """Which registers keep its values."""
        return "outermost" if self.is_outermost else "local"


@dataclass(eq=False)
class _Block:
    """A block under construction: the graph, what it knows of values, and what it stores."""

    number: int
    graph: Graph
    emitter: Emitter
    function: _Function
    loads: dict[_Register, Node]
    values: dict[Any, Any] = field(default_factory=dict)
    stores: dict[_Register, Node] = field(default_factory=dict)


@dataclass(eq=False)
class _Finished:
    """How a block ends: the block that follows, None after a return; for a call, what the call pushes and saves."""

    block: _Block
    target: int | Node | None
    pushes: int | None = None
    saves: dict[_Register, Node] = field(default_factory=dict)


class StackMachine:
    """The loop for one cycle of functions."""

    def __init__(
        self, module: Module, cycle: Sequence[Graph], errors: dict[Graph, tuple[int, int, int]], depth: int
    ) -> None:
        self.module = module
        self.members = set(cycle)
        self.errors = errors
        self.depth = depth
        self.registers: list[_Register] = []
        self._pools: dict[tuple[str, TensorType], list[_Register]] = {}
        self.homes: dict[Node, list[_Register]] = {}
        self._kept: dict[Graph, dict[Node, None]] = {}  # of each graph, the values whose homes are its own
        self.blocks: list[_Block | None] = []
        self.functions: dict[Graph, _Function] = {}
        targets = {
            called
            for graph in module.graphs
            for node in graph.nodes
            if node.opcode == "call"
            for called in node.called_graphs
            if called in self.members
        }
        inner = {
            called for graph in cycle for node in graph.nodes if node.opcode == "call" for called in node.called_graphs
        }
        for graph in cycle:
            if graph in targets:
                function = _Function(graph, self._reserve(), [], [], graph not in inner)
                error = errors[graph][1] if graph in errors else None
                leaves = [leaf for parameter in graph.parameters for leaf in leaves_of(parameter.type)]
                for number, leaf in enumerate(leaves):
                    use = "error" if number == error else function.use
                    function.parameters.append(self._register(leaf, function, use))
                function.results += [self._register(leaf, function, "result") for leaf in leaves_of(graph.root.type)]
                self.functions[graph] = function
        self.finished: dict[int, _Finished] = {}
        self.restores: dict[int, dict[_Register, Node]] = {}  # of blocks that follow calls: what the calls saved
        for function in self.functions.values():
            self._compile(function)
        self.step: Graph | None = None
        self.condition: Graph | None = None

    # Registers and blocks

    def _register(self, value_type: Type, function: _Function, use: str) -> _Register:
        """A register that the function does not use yet; functions share them, since a call saves those of the caller.

        Results have registers of their own, since they outlive their function, and so have the numbers of errors, which
        are looked at after every step.
        """
        if not isinstance(value_type, TensorType):
            raise Unsupported(f"a recursive function holds a {value_type}")
        plain = TensorType(value_type.dtype, value_type.dims)
        pool = self._pools.setdefault((use, plain), [])
        register = next((register for register in pool if register not in function.taken), None)
        if register is None:
            register = _Register(len(self.registers), plain, use)
            self.registers.append(register)
            pool.append(register)
        function.taken[register] = None
        return register

    def _reserve(self) -> int:
        self.blocks.append(None)
        return len(self.blocks) - 1

    def _open(self, number: int, function: _Function) -> _Block:
        graph = self.module.add_graph(self.module.unique_graph_name(f"{function.graph.name}_block{number}"))
        block = _Block(number, graph, Emitter(graph), function, {})
        self.blocks[number] = block
        return block

    def _home(self, value: Node, function: _Function) -> list[_Register]:
        """The registers that keep a value from block to block."""
        home = self.homes.get(value)
        if home is None:
            home = [self._register(leaf, function, function.use) for leaf in leaves_of(value.type)]
            self._keep(value, home)
        return home

    def _keep(self, value: Node, home: list[_Register]) -> None:
        self.homes[value] = home
        self._kept.setdefault(value.graph, {})[value] = None

    def _release(self, values: Sequence[Node], function: _Function) -> None:
        """Free the registers of values that are no longer needed."""
        for value in values:
            del self._kept[value.graph][value]
            for register in self.homes.pop(value):
                if register.use == function.use:
                    del function.taken[register]

    # Compiling functions into blocks

    def _compile(self, function: _Function) -> None:
        graph = function.graph
        number = 0
        for parameter in graph.parameters:
            count = len(list(leaves_of(parameter.type)))
            self._keep(parameter, function.parameters[number : number + count])
            number += count
        block = self._open(function.entry, function)
        block, leaves = self._region(graph, block, function)
        for register, leaf in zip(function.results, leaves, strict=True):
            block.stores[register] = leaf
        self.finished[block.number] = _Finished(block, None)

    def _suspends(self, node: Node) -> bool:
        return any(called in self.members for called in node.called_graphs)

    def _region(self, graph: Graph, block: _Block, function: _Function) -> tuple[_Block, list[Node]]:
        """Compile the nodes of a graph from a block on; the block that they end in, and the leaves of the output.

        A value that is used in a later block than its own is stored in its home registers at the end of its block.
        """
        nodes = [node for node in graph.nodes if not isinstance(node, Parameter)]
        last_uses = {used: position for position, node in enumerate(nodes) for used in node.operands}
        last_uses[graph.root] = len(nodes)
        for position, node in enumerate(nodes):
            if not self._suspends(node):
                self._copy(node, block)
                continue
            for used in node.operands:
                self._value(used, block)
            kept = self._kept.get(graph, ())
            self._release([value for value in kept if last_uses.get(value, -1) <= position], function)
            for value in list(block.values):
                if value.graph is graph and last_uses.get(value, -1) > position:
                    self._store(value, block, function)
            if node.opcode == "call":
                block = self._call(node, block, function)
            elif node.opcode == "conditional":
                block = self._conditional(node, block, function)
            elif node.opcode == "while":
                block = self._while(node, block, function)
            else:
                raise Unsupported(f"{node.name}: a {node.opcode} of a function that calls itself")
        leaves = self._leaf_values(graph.root, block)
        self._release(list(self._kept.get(graph, ())), function)
        return block, leaves

    def _copy(self, node: Node, block: _Block) -> None:
        for used in node.operands:
            self._value(used, block)
        if node.opcode == "get-tuple-element":
            leaves = block.values[node.operands[0]]
            if isinstance(leaves, list) and isinstance(node.type, TensorType):
                block.values[node] = leaves[node.attributes["index"]]
                return
        for used in node.operands:
            self._whole(used, block)
        mapping = {used: block.values[used] for used in node.operands}
        if node.opcode == "tuple":
            block.values[node] = [mapping[used] for used in node.operands]
            if all(isinstance(used.type, TensorType) for used in node.operands):
                return
        block.graph.copy_nodes([node], mapping)
        block.values[node] = mapping[node]

    def _value(self, value: Node, block: _Block) -> Any:
        """A value in a block: a node, or the list of a tuple's leaves; loaded where another block computed it."""
        held = block.values.get(value)
        if held is None:
            if value.opcode == "constant":
                mapping: dict[Any, Any] = {}
                block.graph.copy_nodes([value], mapping)
                held = mapping[value]
            else:
                home = self.homes.get(value)
                if home is None:
                    raise Unsupported(f"{value.name} is not kept across a recursive call")
                leaves = [self._load(register, block) for register in home]
                held = leaves if isinstance(value.type, TupleType) else leaves[0]
            block.values[value] = held
        return held

    def _whole(self, value: Node, block: _Block) -> Node:
        held = self._value(value, block)
        if isinstance(held, list):
            made = block.emitter.tuple(held)
            block.values[value] = made
            return made
        return held

    def _leaf_values(self, value: Node, block: _Block) -> list[Node]:
        held = self._value(value, block)
        if isinstance(held, list):
            return list(held)
        if isinstance(value.type, TupleType):
            return [block.emitter.element(held, number) for number in range(len(value.type.elements))]
        return [held]

    def _load(self, register: _Register, block: _Block) -> Node:
        if register in block.stores:
            return block.stores[register]
        if register not in block.loads:
            # parameters of the block are numbered when it is finished: all registers come in
            block.loads[register] = block.graph.add_parameter(register.type, f"register{register.number}")
        return block.loads[register]

    def _store(self, value: Node, block: _Block, function: _Function) -> None:
        if value.opcode == "constant":
            return
        leaves = self._leaf_values(value, block)
        for register, leaf in zip(self._home(value, function), leaves, strict=True):
            block.stores[register] = leaf

    def _call(self, node: Node, block: _Block, function: _Function) -> _Block:
        called = self.functions[next(iter(node.called_graphs))]
        leaves = [leaf for used in node.operands for leaf in self._leaf_values(used, block)]
        following = self._reserve()
        saves: dict[_Register, Node] = {}
        if not function.is_outermost:
            saves = {register: self._load(register, block) for register in function.taken if register.use == "local"}
        for register, leaf in zip(called.parameters, leaves, strict=True):
            block.stores[register] = leaf
        self.finished[block.number] = _Finished(block, called.entry, following, saves)
        after = self._open(following, function)
        after_values = [self._load(register, after) for register in called.results]
        after.values[node] = after_values if isinstance(node.type, TupleType) else after_values[0]
        self.restores[following] = saves
        for register, leaf in zip(self._home(node, function), after_values, strict=True):
            after.stores[register] = leaf
        return after

    def _conditional(self, node: Node, block: _Block, function: _Function) -> _Block:
        branches = list(node.called_graphs)
        predicate = self._value(node.operands[0], block)
        numbers = [self._reserve() for _ in branches]
        given: list[list[_Register]] = []
        for operand in node.operands[1:]:
            leaves = self._leaf_values(operand, block)
            given.append([self._register(leaf, function, function.use) for leaf in leaves_of(operand.type)])
            block.stores.update(zip(given[-1], leaves, strict=True))
        emitter = block.emitter
        if isinstance(predicate.type, TensorType) and predicate.type.dtype is PREDICATE:
            target = emitter.select(predicate, emitter.constant(numbers[0], S32), emitter.constant(numbers[1], S32))
        else:
            target = emitter.constant(numbers[-1], S32)
            for position, number in enumerate(numbers[:-1]):
                is_it = emitter.compare("EQ", predicate, emitter.constant(position, S32))
                target = emitter.select(is_it, emitter.constant(number, S32), target)
        self.finished[block.number] = _Finished(block, target)
        joined = self._reserve()
        home = self._home(node, function)
        for branch, number, registers in zip(branches, numbers, given, strict=True):
            self._keep(branch.parameters[0], registers)
            inner, leaves = self._region(branch, self._open(number, function), function)
            for register, leaf in zip(home, leaves, strict=True):
                inner.stores[register] = leaf
            self.finished[inner.number] = _Finished(inner, joined)
        return self._open(joined, function)

    def _while(self, node: Node, block: _Block, function: _Function) -> _Block:
        condition, body = node.attributes["condition"], node.attributes["body"]
        home = self._home(node, function)
        for register, leaf in zip(home, self._leaf_values(node.operands[0], block), strict=True):
            block.stores[register] = leaf
        head = self._reserve()
        self.finished[block.number] = _Finished(block, head)
        state = {condition.parameters[0]: home, body.parameters[0]: home}  # not their graphs' to release
        self.homes.update(state)
        inner, (truth,) = self._region(condition, self._open(head, function), function)
        start, after = self._reserve(), self._reserve()
        emitter = inner.emitter
        target = emitter.select(truth, emitter.constant(start, S32), emitter.constant(after, S32))
        self.finished[inner.number] = _Finished(inner, target)
        last, leaves = self._region(body, self._open(start, function), function)
        for register, leaf in zip(home, leaves, strict=True):
            last.stores[register] = leaf
        self.finished[last.number] = _Finished(last, head)
        for parameter in state:
            del self.homes[parameter]
        return self._open(after, function)

    # The loop

    def replace_calls(self) -> None:
        """Put the loop in place of every call from outside."""
        for graph in list(self.module.graphs):
            if graph not in self.members and graph.output is not None:
                for node in list(graph.nodes):
                    if node.opcode == "call" and next(iter(node.called_graphs)) in self.functions:
                        self.replace(node)

    def replace(self, node: Node) -> None:
        """Put the loop in place of a call from outside."""
        function = self.functions[next(iter(node.called_graphs))]
        graph = node.graph
        emitter = Emitter(graph)
        before = node
        made: list[Node] = []

        def add(opcode: str, inputs: Sequence[Node], value_type: Type | None = None, **attributes: Any) -> Node:
            row, inferred, values = emitter.resolved(opcode, [used.type for used in inputs], value_type, attributes)
            result = graph.add_apply(row, inputs, inferred, values, before=before)
            made.append(result)
            return result

        def number(value: Any, value_type: TensorType) -> Node:
            return graph.add_constant(literal_of(value, value_type.dtype), TensorType(value_type.dtype), before=before)

        def zeros(value_type: TensorType) -> Node:
            scalar = number(False if value_type.dtype is PREDICATE else 0, value_type)
            return add("broadcast", [scalar], value_type, dimensions=()) if value_type.rank else scalar

        scalar = TensorType(S32)
        arguments: list[Node] = []
        for used in node.operands:
            if isinstance(used.type, TupleType):
                arguments += [
                    add("get-tuple-element", [used], index=position) for position in range(len(used.type.elements))
                ]
            else:
                arguments.append(used)
        given = dict(zip(function.parameters, arguments, strict=True))
        state = [number(function.entry, scalar), number(0, scalar), number(0, scalar)]
        state += [given.get(register) or zeros(register.type) for register in self.registers]
        state += [
            zeros(TensorType(register.type.dtype, (self.depth, *register.type.dims))) for register in self.saved()
        ]
        state.append(zeros(TensorType(S32, (self.depth,))))
        whole = add("tuple", state)
        if self.step is None:
            self._make_loop(whole.type)
        loop = graph.add_apply(
            OPS["while"], [whole], whole.type, {"condition": self.condition, "body": self.step}, before=before
        )
        leaves = [add("get-tuple-element", [loop], index=3 + register.number) for register in function.results]
        error = self.errors.get(function.graph)
        if error is not None:
            position = error[0]
            problem = add("get-tuple-element", [loop], index=2)
            has_problem = add("compare", [problem, number(0, scalar)], direction="NE")
            leaves[position] = add("select", [has_problem, problem, leaves[position]])
        result = add("tuple", leaves) if isinstance(node.type, TupleType) else leaves[0]
        graph.replace_uses(node, result)
        graph.erase(node)

    def saved(self) -> list[_Register]:
        """The registers that calls save."""
        collected: dict[_Register, None] = {}
        for block in self.finished.values():
            collected.update(dict.fromkeys(block.saves))
        return list(collected)

    def _make_loop(self, state_type: Any) -> None:
        """The graphs of the loop: whether it goes on, and one step."""
        module = self.module
        condition = module.add_graph(module.unique_graph_name("recursion_goes_on"))
        test = Emitter(condition)
        state = condition.add_parameter(state_type, "state")
        running = test.compare("NE", test.element(state, 0), test.constant(HALT, S32))
        condition.set_output(running)
        self.condition = condition
        step = module.add_graph(module.unique_graph_name("recursion_step"))
        emitter = Emitter(step)
        state = step.add_parameter(state_type, "state")
        counter, depth, overflow = (emitter.element(state, number) for number in range(3))
        registers = [emitter.element(state, 3 + number) for number in range(len(self.registers))]
        saved = self.saved()
        first = 3 + len(registers)
        stacks = [emitter.element(state, first + number) for number in range(len(saved))]
        returns = emitter.element(state, first + len(saved))
        tops = [self._read(emitter, stack, depth, register.type) for stack, register in zip(stacks, saved, strict=True)]
        one = emitter.constant(1, S32)
        below = emitter.elementwise("maximum", emitter.sub(depth, one), emitter.constant(0, S32))
        back = self._read(emitter, returns, below, TensorType(S32))
        operand = emitter.tuple([depth, back, *registers, *tops])
        blocks = [self._block_graph(number, operand.type, saved) for number in range(len(self.blocks))]
        result_type = blocks[0].root.type
        if len(blocks) == 1:
            made: Node = step.add_apply(OPS["call"], [operand], result_type, {"to_apply": blocks[0]})
        else:
            made = step.add_apply(
                OPS["conditional"],
                [counter, *[operand] * len(blocks)],
                result_type,
                {"branch_computations": tuple(blocks)},
            )
        next_counter, pushed, return_to = (emitter.element(made, number) for number in range(3))
        next_registers = [emitter.element(made, 3 + number) for number in range(len(registers))]
        to_save = [emitter.element(made, 3 + len(registers) + number) for number in range(len(saved))]
        next_stacks = [self._write(emitter, stack, value, depth) for stack, value in zip(stacks, to_save, strict=True)]
        next_returns = self._write(emitter, returns, return_to, depth)
        next_depth = emitter.add(depth, pushed)
        is_full = emitter.compare("GE", next_depth, emitter.constant(self.depth, S32))
        next_counter = emitter.select(is_full, emitter.constant(HALT, S32), next_counter)
        code = next((row[2] for row in self.errors.values()), 1)
        next_overflow = emitter.select(is_full, emitter.constant(code, S32), overflow)
        for graph, function in self.functions.items():
            row = self.errors.get(graph)
            if row is not None:  # an error ends the recursion: what it would compute is not looked at
                number = next_registers[function.parameters[row[1]].number]
                is_error = emitter.compare("NE", number, emitter.constant(0, S32))
                next_counter = emitter.select(is_error, emitter.constant(HALT, S32), next_counter)
                next_overflow = emitter.select(is_error, number, next_overflow)
        step.set_output(
            emitter.tuple([next_counter, next_depth, next_overflow, *next_registers, *next_stacks, next_returns])
        )
        self.step = step

    def _read(self, emitter: Emitter, stack: Node, position: Node, value_type: TensorType) -> Node:
        zero = emitter.constant(0, S32)
        piece = emitter.op(
            "dynamic-slice", stack, position, *[zero] * value_type.rank, dynamic_slice_sizes=(1, *value_type.dims)
        )
        return emitter.reshape(piece, value_type.dims)

    def _write(self, emitter: Emitter, stack: Node, value: Node, position: Node) -> Node:
        zero = emitter.constant(0, S32)
        assert isinstance(value.type, TensorType)
        piece = emitter.reshape(value, (1, *value.type.dims))
        return emitter.op("dynamic-update-slice", stack, piece, position, *[zero] * value.type.rank)

    def _block_graph(self, number: int, operand_type: Any, saved: Sequence[_Register]) -> Graph:
        """A finished block as a branch: depth, return address, registers, top of the stack in; the next state out."""
        finished = self.finished[number]
        block = finished.block
        module = self.module
        graph = module.add_graph(module.unique_graph_name(f"{block.graph.name}_branch"))
        emitter = Emitter(graph)
        operand = graph.add_parameter(operand_type, "state")
        depth, back = emitter.element(operand, 0), emitter.element(operand, 1)
        incoming = {register: emitter.element(operand, 2 + register.number) for register in self.registers}
        first = 2 + len(self.registers)
        restores = self.restores.get(number)
        if restores is not None:
            tops = {register: emitter.element(operand, first + position) for position, register in enumerate(saved)}
            incoming.update((register, tops[register]) for register in restores)
        mapping: dict[Any, Any] = {load: incoming[register] for register, load in block.loads.items()}
        graph.copy_nodes([node for node in block.graph.nodes if not isinstance(node, Parameter)], mapping)

        outgoing = {**incoming, **{register: mapping[value] for register, value in block.stores.items()}}
        pushed = return_to = emitter.constant(0, S32)
        if finished.target is None:
            at_bottom = emitter.compare("EQ", depth, emitter.constant(0, S32))
            target = emitter.select(at_bottom, emitter.constant(HALT, S32), back)
            pushed = emitter.select(at_bottom, emitter.constant(0, S32), emitter.constant(-1, S32))
        elif isinstance(finished.target, int):
            target = emitter.constant(finished.target, S32)
        else:
            target = mapping[finished.target]
        if finished.pushes is not None:
            pushed, return_to = emitter.constant(1, S32), emitter.constant(finished.pushes, S32)
        saves = finished.saves
        to_save = [mapping[saves[register]] if register in saves else incoming[register] for register in saved]
        graph.set_output(
            emitter.tuple([target, pushed, return_to, *(outgoing[register] for register in self.registers), *to_save])
        )
        return graph


def leaves_of(value_type: Type | None) -> list[Type]:
    """The types of a tuple's elements, or the one type."""
    if isinstance(value_type, TupleType):
        return list(value_type.elements)
    assert value_type is not None
    return [value_type]
