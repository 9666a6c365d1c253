"""Profiles of real models in PipeDream's format, written from tables of what was measured.

Where the figures are from: vgg16 from PipeDream (github.com/msr-fiddle/pipedream, MIT licence,
profiler/image_classification/profiles/vgg16); bert, xlnet, vgg19, amoebanet_36 and gnmt_32 from HPGO
(github.com/LER0ever/HPGO, BSD 3-clause licence, profiles) and DAPPLE (github.com/AlibabaPAI/DAPPLE, profiling_results),
which measured them on V100s.
"""

from __future__ import annotations

from collections.abc import Iterable

Row = tuple[str, str, float, float, str, float]
"""Name, description, milliseconds forward and backward, activation, bytes of parameters."""


def text(rows: Iterable[Row], edges: Iterable[tuple[str, str]]) -> str:
    lines = [
        f"{name} -- {description} -- forward_compute_time={forward}, backward_compute_time={backward}, "
        f"activation_size={activation}, parameter_size={parameters}"
        for name, description, forward, backward, activation, parameters in rows
    ]
    return "\n".join([*lines, *(f"\t{producer} -- {consumer}" for producer, consumer in edges)])


def row(number: int, description: str, forward: float, backward: float, activation: object, parameters: float) -> Row:
    return f"node{number}", description, forward, backward, str(activation), parameters


def numbered(pairs: Iterable[tuple[int, int]]) -> list[tuple[str, str]]:
    return [(f"node{producer}", f"node{consumer}") for producer, consumer in pairs]


def bert(layers: int, input_name: str) -> str:
    """BERT of so many encoder layers, at 2 examples in what is called bert_48 and bert_large."""
    rows = [
        row(1, input_name, 0.01, 0, 9216, 0),
        row(2, "attention_mask", 0.011, 0, 3538944, 0),
        row(3, "embeddings", 0.056, 0, 9437184, 127131648),
        row(4, "reshape_input", 0, 0, 9437184, 0),
        *(row(5 + number, f"layer_{number}", 8.07, 13.4, 9437184, 50384896) for number in range(layers)),
        row(5 + layers, "pooler", 0, 0, 0, 4198400),
    ]
    edges = [(1, 2), (1, 3), (3, 4), (2, 5), (4, 5)]
    for number in range(6, 5 + layers):
        edges += [(number - 1, number), (2, number)]
    return text(rows, numbered([*edges, (4 + layers, 5 + layers)]))


def xlnet(layers: int) -> str:
    """XLNet of so many layers, at 1 example."""
    rows = [
        row(1, "Input", 17.0, 0, 4000, 0),
        row(2, "Embed-Token", 0.007, 0, 2000000, 131000000),
        row(3, "dropout", 0.023, 0, 4000000, 0),
        row(4, "Embed-Segment-one_hot", 0.017, 0, 2000000, 0),
        row(5, "ATTN_MASK", 0, 0, 1000000, 0),
        row(6, "Embed-Token-Dropout", 0.023, 0, 2000000, 0),
        *(row(7 + number, f"Layer_{number}", 3.4, 4.9, 2000000, 52000000) for number in range(layers)),
        row(7 + layers, "XLNET_LOSS", 0.46, 1.38, 2000, 0),
    ]
    edges = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (2, 6)]
    for number in range(7, 7 + layers):
        edges += [(number - 1, number), (3, number), (4, number), (5, number)]
    return text(rows, numbered([*edges, (6 + layers, 7 + layers)]))


VGG19 = """Input 3.4 0 19000000 0
Conv2d_1_1 3.4 6.8 384000000 6835
Conv2d_1_2 7.2 14.4 384000000 140869
MaxPool2d_1 0.65 1.3 96000000 0
Conv2d_2_1 3.4 6.8 192000000 281738
Conv2d_2_2 5.0 10.0 192000000 562988
MaxPool2d_2 0.3 0.6 48000000 0
Conv2d_3_1 2.3 4.6 96000000 1125976
Conv2d_3_2 3.55 7.1 96000000 2250976
Conv2d_3_3 3.55 7.1 96000000 2250976
Conv2d_3_4 3.55 7.1 96000000 2250976
MaxPool2d_3 0.165 0.33 24000000 0
Conv2d_4_1 1.71 3.42 48000000 4501953
Conv2d_4_2 2.9 5.8 48000000 9001953
Conv2d_4_3 2.88 5.76 48000000 9001953
Conv2d_4_4 2.86 5.72 48000000 9001953
MaxPool2d_4 0.1 0.2 12000000 0
Conv2d_5_1 0.965 1.93 12000000 9001953
Conv2d_5_2 0.965 1.93 12000000 9001953
Conv2d_5_3 0.96 1.92 12000000 9001953
Conv2d_5_4 0.965 1.93 12000000 9001953
MaxPool2d_5 0.03 0.06 3000000 0
FC1 0.45 0.9 500000 392015625
FC2 0.1 0.2 500000 64015625
Prediction 0.05 0.1 128000 15628814
Loss 0.01 0.2 2000000 0"""

VGG16 = """Input 17.972 0 77070336 0
Conv2d(3,64) 22.307 24.613 1644167168 7168
ReLU 4.446 5.553 1644167168 0
Conv2d(64,64) 46.201 113.330 1644167168 147712
ReLU 4.455 5.311 1644167168 0
MaxPool2d 3.795 5.579 411041792 0
Conv2d(64,128) 15.155 39.648 822083584 295424
ReLU 2.359 2.738 822083584 0
Conv2d(128,128) 22.062 53.379 822083584 590336
ReLU 2.513 2.620 822083584 0
MaxPool2d 2.211 2.788 205520896 0
Conv2d(128,256) 10.814 18.335 411041792 1180672
ReLU 1.377 1.380 411041792 0
Conv2d(256,256) 17.458 27.023 411041792 2360320
ReLU 1.640 1.463 411041792 0
Conv2d(256,256) 14.245 33.888 411041792 2360320
ReLU 1.549 1.321 411041792 0
MaxPool2d 1.169 1.513 102760448 0
Conv2d(256,512) 9.249 14.574 205520896 4720640
ReLU 1.026 0.696 205520896 0
Conv2d(512,512) 15.359 21.900 205520896 9439232
ReLU 0.848 0.679 205520896 0
Conv2d(512,512) 11.775 28.670 205520896 9439232
ReLU 0.881 0.642 205520896 0
MaxPool2d 0.802 0.781 51380224 0
Conv2d(512,512) 5.608 7.381 51380224 9439232
ReLU 0.784 0.266 51380224 0
Conv2d(512,512) 4.070 7.396 51380224 9439232
ReLU 0.463 0.190 51380224 0
Conv2d(512,512) 4.042 8.648 51380224 9439232
ReLU 0.455 0.175 51380224 0
MaxPool2d 0.553 0.234 12845056 0
Size(0) 0 0 4 0
View(-1) 0 0 12845056 0
Linear(25088,4096) 2.475 4.575 2097152 411058176
ReLU 0.377 0.030 2097152 0
Dropout 0 0 2097152 0
Linear(4096,4096) 0.709 0.734 2097152 67125248
ReLU 0.277 0.032 2097152 0
Dropout 0 0 2097152 0
Linear(4096,1000) 0.393 0.548 512000 16388000"""

AMOEBANET_36 = """Input 0 0 [602112;4004] 0
stem 0.08 0.07 [4731264;1577088] 3456
cell_stem_0 0.61 1.57 [4816896;4816896] 245760
cell_stem_1 0.57 1.73 [2408448;2408448] 1327104
cell_0 0.97 2.38 [6422528;6422528] 8388608
cell_1 1.04 2.35 [6422528;6422528] 11796480
cell_2 1.11 3.04 [6422528;6422528] 14417920
cell_3 1.04 2.28 [6422528;6422528] 14417920
cell_4 1.08 2.61 [6422528;6422528] 14417920
cell_5 1.04 2.33 [6422528;6422528] 14417920
cell_6 1.11 3.04 [6422528;6422528] 14417920
cell_7 1.04 2.28 [6422528;6422528] 14417920
cell_8 1.08 2.61 [6422528;6422528] 14417920
cell_9 1.04 2.33 [6422528;6422528] 14417920
cell_10 1.11 3.04 [6422528;6422528] 14417920
cell_11 1.04 2.28 [6422528;6422528] 14417920
reduction_cell_0 1.16 2.51 [2408448;2408448] 31195136
cell_12 0.97 2.70 [3211264;3211264] 45088768
cell_13 0.95 2.66 [3211264;3211264] 53477376
cell_14 0.97 3.44 [3211264;3211264] 57671680
cell_15 0.99 2.50 [3211264;3211264] 57671680
cell_16 0.97 2.84 [3211264;3211264] 57671680
cell_17 1.00 2.91 [3211264;3211264] 57671680
cell_18 0.97 3.44 [3211264;3211264] 57671680
cell_19 0.99 2.50 [3211264;3211264] 57671680
cell_20 0.97 2.84 [3211264;3211264] 57671680
cell_21 1.00 2.91 [3211264;3211264] 57671680
cell_22 0.97 3.44 [3211264;3211264] 57671680
cell_23 0.99 2.50 [3211264;3211264] 57671680
reduction_cell_1 1.27 3.42 [1204224;1204224] 124780544
cell_24 1.24 3.63 [1605632;1605632] 180355072
cell_25 1.74 3.65 [1605632;1605632] 213909504
cell_26 1.66 3.18 [1605632;1605632] 230686720
cell_27 1.73 4.13 [1605632;1605632] 230686720
cell_28 1.60 3.62 [1605632;1605632] 230686720
cell_29 2.01 4.14 [1605632;1605632] 230686720
cell_30 1.66 3.18 [1605632;1605632] 230686720
cell_31 1.73 4.13 [1605632;1605632] 230686720
cell_32 1.60 3.62 [1605632;1605632] 230686720
cell_33 2.01 4.14 [1605632;1605632] 230686720
cell_34 1.66 3.18 1605632 230686720
cell_35 1.73 4.13 1605632 230686720
final_layer 0.13 0.10 4004 32804772
softmax_loss 0.04 0 0 0"""


def rows_of(table: str) -> list[Row]:
    rows = []
    for number, line in enumerate(table.splitlines(), 1):
        description, forward, backward, activation, parameters = line.split()
        rows.append(
            row(number, description, float(forward), float(backward), activation.replace(";", "; "), int(parameters))
        )
    return rows


def vgg19() -> str:
    """VGG19, at 32 examples."""
    return text(rows_of(VGG19), numbered((number, number + 1) for number in range(1, 26)))


def vgg16() -> str:
    """VGG16, at 32 examples as HPGO reads it, whose nodes stand in the order in which a dictionary had them."""
    chain = [(number, number + 1) for number in range(1, 41)]
    return text(rows_of(VGG16), numbered([*chain, (32, 34)]))


def amoebanet_36() -> str:
    """AmoebaNet of 36 cells, at 1 example: each cell reads the two before it."""
    edges = [(1, 2), (1, 26), (2, 3), (2, 4)]
    for number in range(3, 41):
        edges += [(number, number + 1), (number, number + 2)]
    return text(rows_of(AMOEBANET_36), numbered([*edges, (41, 42), (42, 43), (43, 44)]))


GNMT_ENCODER = [(3.534, 6.707), (3.530, 6.708), (3.540, 6.729), (3.531, 6.734), (3.539, 6.736), (3.549, 6.745), (3.554, 6.759), (3.565, 6.770), (3.571, 6.783), (3.575, 6.767), (3.590, 6.790), (3.591, 6.782), (3.597, 6.809), (3.601, 7.300)]
GNMT_DECODER = [(4.815, 8.777), (4.823, 8.789), (4.849, 8.785), (4.829, 8.776), (4.829, 8.785), (4.820, 8.797), (4.826, 8.770), (4.839, 8.778), (4.829, 8.794), (4.846, 8.773), (4.831, 8.775), (4.855, 8.764), (4.870, 8.791), (4.830, 31.889)]


def gnmt_32_simplified() -> str:
    """GNMT of 32 layers, at 64 examples: an encoder of LSTMs, attention, and a decoder of LSTMs that all read it."""
    rows = [
        row(1, "Input0", 0, 0, 0.0, 0),
        row(4, "Embedding(36560, 1024, padding_idx=0)", 0.087, 11.587, 9961472.0, 149749760),
        row(5, "EmuBidirLSTM", 7.665, 0.019, 19922944.0, 67174400),
        row(2, "Input1", 0, 0, 0.0, 0),
        row(7, "LSTM(2048, 1024)", 4.788, 8.891, "[9961472.0; 262144.0; 262144.0]", 50364416),
    ]
    edges = [(1, 4), (4, 5), (2, 5), (5, 7)]
    last = 7
    for number, (forward, backward) in enumerate(GNMT_ENCODER):
        lstm, add = 11 + 5 * number, 14 + 5 * number
        rows.append(row(lstm, "LSTM(1024, 1024)", forward, backward, "[9961472.0; 262144.0; 262144.0]", 33587200))
        rows.append(row(add, "Add", 0, 0, 9961472.0, 0))
        edges += [(last, lstm), (lstm, add), (last, add)]
        last = add
    rows += [
        row(3, "Input2", 0, 0, 0.0, 0),
        row(81, "Embedding(36560, 1024, padding_idx=0)", 0.074, 0.398, 8388608.0, 149749760),
        row(80, "hidden", 0, 0, 0.0, 0),
        row(83, "RecurrentAttention", 7.625, 10.896, "[8388608.0; 262144.0; 262144.0; 8388608.0; 311296.0]", 41979904),
        row(89, "Concat(2)", 0, 0, 8388608.0, 0),
        row(91, "LSTM(2048, 1024)", 4.819, 8.779, "[8388608.0; 262144.0; 262144.0]", 50364416),
    ]
    edges += [(3, 81), (80, 83), (81, 83), (last, 83), (2, 83), (83, 89), (80, 91), (89, 91)]
    last = 91
    for number, (forward, backward) in enumerate(GNMT_DECODER):
        lstm, add = 97 + 7 * number, 100 + 7 * number
        rows.append(row(lstm, "LSTM(2048, 1024)", forward, backward, "[8388608.0; 262144.0; 262144.0]", 50364416))
        rows.append(row(add, "Add", 0, 0, 8388608.0, 0))
        edges += [(last, lstm), (83, lstm), (80, lstm), (lstm, add), (last, add)]
        last = add
    rows.append(row(192, "Classifier", 18.322, 2.941, 299499520.0, 149896000))
    return text(rows, numbered([*edges, (191, 192)]))
