/* SPDX-License-Identifier: Apache-2.0
 *
 * RNN, GRU and LSTM as scans. The products with the inputs of all steps are one product before the
 * loop; the weights of the recurrence are transposed there, too. A step beyond the length of a row
 * keeps the row's state and gives zeros.
 */
#include "compiler/frontend/onnx/rules/loop.h"
#include "runtime/base/array.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { GATES_MAX = 4, FUNCTIONS_MAX = 3 };

/* One direction of a layer. */
typedef struct layer {
    MlirValue inputs;    /* [T, B, gates H]: products with W, plus biases that are added outside */
    MlirValue weights;   /* [H, gates H] */
    MlirValue bias;      /* [gates H] of the recurrence, where it is not part of inputs; or null */
    MlirValue peepholes; /* [3 H], or null */
    MlirValue lengths;   /* [B, 1], or null */
    MlirValue states[2]; /* [B, H] */
    size_t state_count, gates;
    int64_t hidden;
    const char *functions[FUNCTIONS_MAX];
    double clip;
    bool reverse, linear_before_reset, input_forget;
} layer;

static MlirValue activate(tsr_onnx_call *c, const layer *l, const char *name, MlirValue x) {
    static const struct {
        const char *name, *op;
    } plain[] = {{"sigmoid", TSR_GRAPH_NAME("sigmoid")},
                 {"tanh", TSR_GRAPH_NAME("tanh")},
                 {"relu", TSR_GRAPH_NAME("relu")},
                 {"softplus", TSR_GRAPH_NAME("softplus")}};
    if (l->clip > 0) {
        x = EMIT(c, "min", x, tsr_onnx_number(c, x, l->clip));
        x = EMIT(c, "max", x, tsr_onnx_number(c, x, -l->clip));
    }
    for (size_t i = 0; i < TSR_COUNT(plain); i++)
        if (strcasecmp(name, plain[i].name) == 0)
            return tsr_onnx_emit(c, plain[i].op, &x, 1, NULL, NULL);
    if (strcasecmp(name, "softsign") == 0)
        return EMIT(c, "div", x, EMIT(c, "add", ONE(c, x), EMIT(c, "abs", x)));
    return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_ATTRIBUTE,
                               "activation '%s' cannot be imported; Sigmoid, Tanh, Relu, Softplus "
                               "and Softsign can",
                               name);
}

/* Gate `index` of [B, gates H]. */
static MlirValue gate(tsr_onnx_call *c, const layer *l, MlirValue x, size_t index) {
    uint32_t last = tsr_onnx_rank(x) - 1;
    return tsr_onnx_slice_dim(c, x, last, (int64_t)index * l->hidden, l->hidden, 1);
}

/* ---- one step -------------------------------------------------------------------------------- */

static MlirValue recur(tsr_onnx_call *c, const layer *l, MlirValue h) {
    return tsr_onnx_matmul(c, h, l->weights, false, false);
}

static MlirValue step_rnn(tsr_onnx_call *c, const layer *l, MlirValue x, const MlirValue *states,
                          MlirValue *next) {
    next[0] = activate(c, l, l->functions[0], EMIT(c, "add", x, recur(c, l, states[0])));
    return next[0];
}

/* Gates: update z, reset r, hidden. */
static MlirValue step_gru(tsr_onnx_call *c, const layer *l, MlirValue x, const MlirValue *states,
                          MlirValue *next) {
    MlirValue h = states[0], hidden, z, r;
    MlirValue both = tsr_onnx_slice_dim(c, l->weights, 1, 0, 2 * l->hidden, 1);
    MlirValue own = tsr_onnx_slice_dim(c, l->weights, 1, 2 * l->hidden, l->hidden, 1);
    MlirValue recurrent = tsr_onnx_matmul(c, h, both, false, false);
    MlirValue shift = mlirValueIsNull(l->bias) ? (MlirValue){NULL} : gate(c, l, l->bias, 2);
    z = activate(c, l, l->functions[0], EMIT(c, "add", gate(c, l, x, 0), gate(c, l, recurrent, 0)));
    r = activate(c, l, l->functions[0], EMIT(c, "add", gate(c, l, x, 1), gate(c, l, recurrent, 1)));
    if (l->linear_before_reset) {
        hidden = tsr_onnx_matmul(c, h, own, false, false);
        if (!mlirValueIsNull(shift)) hidden = EMIT(c, "add", hidden, shift);
        hidden = EMIT(c, "mul", r, hidden);
    } else {
        hidden = tsr_onnx_matmul(c, EMIT(c, "mul", r, h), own, false, false);
        if (!mlirValueIsNull(shift)) hidden = EMIT(c, "add", hidden, shift);
    }
    hidden = activate(c, l, l->functions[1], EMIT(c, "add", gate(c, l, x, 2), hidden));
    MlirValue carried = EMIT(c, "mul", EMIT(c, "sub", ONE(c, z), z), hidden);
    next[0] = EMIT(c, "add", carried, EMIT(c, "mul", z, h));
    return next[0];
}

static MlirValue peep(tsr_onnx_call *c, const layer *l, MlirValue x, size_t index, MlirValue cell) {
    if (mlirValueIsNull(l->peepholes)) return x;
    return EMIT(c, "add", x, EMIT(c, "mul", gate(c, l, l->peepholes, index), cell));
}

/* Gates: input, output, forget, cell; peepholes: input, output, forget. */
static MlirValue step_lstm(tsr_onnx_call *c, const layer *l, MlirValue x, const MlirValue *states,
                           MlirValue *next) {
    MlirValue all = EMIT(c, "add", x, recur(c, l, states[0])), cell = states[1], f;
    MlirValue i = activate(c, l, l->functions[0], peep(c, l, gate(c, l, all, 0), 0, cell));
    if (l->input_forget)
        f = EMIT(c, "sub", ONE(c, i), i);
    else
        f = activate(c, l, l->functions[0], peep(c, l, gate(c, l, all, 2), 2, cell));
    MlirValue made = activate(c, l, l->functions[1], gate(c, l, all, 3));
    next[1] = EMIT(c, "add", EMIT(c, "mul", f, cell), EMIT(c, "mul", i, made));
    MlirValue o = activate(c, l, l->functions[0], peep(c, l, gate(c, l, all, 1), 1, next[1]));
    next[0] = EMIT(c, "mul", o, activate(c, l, l->functions[2], next[1]));
    return next[0];
}

typedef MlirValue (*step_fn)(tsr_onnx_call *c, const layer *l, MlirValue x, const MlirValue *states,
                             MlirValue *next);

/* Runs the steps; *out_all is [T, B, H], `out_last` the last states. */
static bool run_layer(tsr_onnx_call *c, const layer *l, step_fn step, MlirValue *out_all,
                      MlirValue *out_last) {
    tsr_onnx_loop loop;
    MlirValue sequences[2] = {l->inputs}, next[2], results[3];
    size_t sequence_count = 1;
    if (!mlirValueIsNull(l->lengths))
        sequences[sequence_count++] =
            tsr_onnx_iota(c, TSR_DTYPE_I64, 1, 0, tsr_onnx_dim_of(l->inputs, 0));
    if (!tsr_onnx_loop_begin(c, l->state_count, l->states, sequence_count, sequences, 0, &loop))
        return false;
    MlirValue y = step(c, l, loop.arguments[l->state_count], loop.arguments, next);
    if (!mlirValueIsNull(l->lengths)) {
        MlirValue within =
            tsr_onnx_compare(c, TSR_PREDICATE_LT, loop.arguments[l->state_count + 1], l->lengths);
        for (size_t i = 0; i < l->state_count; i++)
            next[i] = EMIT(c, "where", within, next[i], loop.arguments[i]);
        y = EMIT(c, "where", within, y, ZERO(c, y));
    }
    if (!tsr_onnx_loop_end(c, &loop, l->reverse, next, 1, &y, results)) return false;
    for (size_t i = 0; i < l->state_count; i++) out_last[i] = results[i];
    *out_all = results[l->state_count];
    return true;
}

/* ---- reading the node ------------------------------------------------------------------------ */

/* Direction `index` of an input [directions, …]. */
static MlirValue direction_of(tsr_onnx_call *c, MlirValue x, int64_t index) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    if (mlirValueIsNull(x) || shape.rank == 0) return x;
    x = tsr_onnx_slice_dim(c, x, 0, index, 1, 1);
    for (uint32_t i = 1; i < shape.rank; i++) shape.dims[i - 1] = shape.dims[i];
    shape.rank--;
    return tsr_onnx_reshape(c, x, &shape);
}

/* An initial state [B, H]; zeros if absent. */
static MlirValue initial_state(tsr_onnx_call *c, size_t input, int64_t direction, MlirValue x,
                               int64_t hidden, bool batch_first) {
    const tsr_shape shape = {.rank = 2, .dims = {tsr_onnx_dim_of(x, 1), (uint64_t)hidden}};
    MlirValue h = tsr_onnx_in_or_null(c, input);
    if (mlirValueIsNull(h)) return tsr_onnx_filled(c, tsr_onnx_dtype(x), &shape, 0);
    if (batch_first) h = tsr_onnx_swap(c, h, 0, 1);
    return direction_of(c, h, direction);
}

/* Names of the activations of one direction: those given, or the op's own. */
static bool read_functions(tsr_onnx_call *c, layer *l, size_t direction, size_t count) {
    static const char *const own[] = {"Sigmoid", "Tanh", "Tanh"};
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, "activations");
    const char *which = c->row->with;
    for (size_t i = 0; i < FUNCTIONS_MAX; i++) l->functions[i] = which[0] == 'r' ? "Tanh" : own[i];
    if (tsr_onnx_attr(c, "activation_alpha") || tsr_onnx_attr(c, "activation_beta"))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attributes 'activation_alpha' and 'activation_beta'");
    if (!a || a->strings.count < (direction + 1) * count) return true;
    for (size_t i = 0; i < count; i++) {
        const tsr_wire_span *s = TSR_ONNX_ITEM(a->strings, tsr_wire_span, direction * count + i);
        l->functions[i] = tsr_arena_strndup(c->arena, (const char *)s->bytes, s->size_bytes);
        if (!l->functions[i]) return false;
    }
    return true;
}

/* Weights, biases and products of one direction. */
static bool read_layer(tsr_onnx_call *c, MlirValue x, int64_t direction, layer *l) {
    MlirValue w = direction_of(c, tsr_onnx_in(c, 1), direction);
    MlirValue r = direction_of(c, tsr_onnx_in(c, 2), direction);
    MlirValue bias = direction_of(c, tsr_onnx_in_or_null(c, 3), direction);
    bool is_gru = c->row->with[0] == 'g';
    int64_t size = (int64_t)l->gates * l->hidden;
    if (!tsr_onnx_need_rank(c, "W", w, 2, 2) || !tsr_onnx_need_rank(c, "R", r, 2, 2)) return false;
    l->inputs = tsr_onnx_matmul(c, x, w, false, true);
    l->weights = tsr_onnx_swap(c, r, 0, 1);
    if (mlirValueIsNull(bias)) return !c->failed;
    uint64_t bias_size = 0;
    if (!tsr_onnx_known_dim(c, "B", bias, 0, &bias_size)) return false;
    if (bias_size != 2 * (uint64_t)size)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "B has %" PRIu64 " elements; expected %" PRId64, bias_size, 2 * size);
    MlirValue own = tsr_onnx_slice_dim(c, bias, 0, size, size, 1);
    l->inputs = EMIT(c, "add", l->inputs, tsr_onnx_slice_dim(c, bias, 0, 0, size, 1));
    if (!is_gru) {
        l->inputs = EMIT(c, "add", l->inputs, own);
        return !c->failed;
    }
    /* the hidden gate's is added in the loop; those of the others are part of the inputs */
    int64_t low[] = {0}, high[] = {l->hidden};
    MlirValue gates = tsr_onnx_slice_dim(c, own, 0, 0, 2 * l->hidden, 1);
    l->inputs = EMIT(c, "add", l->inputs, tsr_onnx_pad(c, gates, low, high, NULL, 0));
    l->bias = own;
    return !c->failed;
}

/* Y is [T, directions, B, H], or [B, T, directions, H]; last states [directions, B, H], or
 * [B, directions, H]. */
static void set_outputs(tsr_onnx_call *c, size_t directions, size_t states, const MlirValue *all,
                        MlirValue last[][2], bool batch_first) {
    MlirValue parts[2];
    for (size_t d = 0; d < directions; d++) {
        tsr_shape s = tsr_onnx_type_of(all[d]).shape;
        parts[d] = tsr_onnx_reshape(
            c, all[d], &(tsr_shape){.rank = 4, .dims = {s.dims[0], 1, s.dims[1], s.dims[2]}});
    }
    MlirValue y = tsr_onnx_concat(c, directions, parts, 1);
    if (batch_first) y = tsr_onnx_transpose(c, y, (const int64_t[]){2, 0, 1, 3});
    tsr_onnx_out(c, 0, y);
    for (size_t i = 0; i < states; i++) {
        for (size_t d = 0; d < directions; d++) {
            tsr_shape s = tsr_onnx_type_of(last[d][i]).shape;
            parts[d] = tsr_onnx_reshape(c, last[d][i],
                                        &(tsr_shape){.rank = 3, .dims = {1, s.dims[0], s.dims[1]}});
        }
        y = tsr_onnx_concat(c, directions, parts, 0);
        tsr_onnx_out(c, 1 + i, batch_first ? tsr_onnx_swap(c, y, 0, 1) : y);
    }
}

/* Lengths that are all of the sequence limit nothing. */
static MlirValue read_lengths(tsr_onnx_call *c, MlirValue x) {
    MlirValue lengths = tsr_onnx_in_or_null(c, 4);
    const tsr_onnx_known *known = tsr_onnx_evaluate(c->importer, lengths);
    bool all = known && !known->is_float;
    for (uint64_t i = 0; all && i < known->count; i++)
        all = known->ints[i] == (int64_t)tsr_onnx_dim_of(x, 0);
    if (mlirValueIsNull(lengths) || all) return (MlirValue){NULL};
    const tsr_shape column = {.rank = 2, .dims = {tsr_onnx_dim_of(x, 1), 1}};
    return tsr_onnx_reshape(c, tsr_onnx_cast(c, lengths, TSR_DTYPE_I64), &column);
}

bool tsr_onnx_rule_recurrent(tsr_onnx_call *c) {
    static const struct {
        char kind;
        size_t gates, states, functions;
        step_fn step;
    } cells[] = {{'r', 1, 1, 1, step_rnn}, {'g', 3, 1, 2, step_gru}, {'l', 4, 2, 3, step_lstm}};
    size_t kind = c->row->with[0] == 'r' ? 0 : c->row->with[0] == 'g' ? 1 : 2;
    MlirValue x = tsr_onnx_in(c, 0), all[2], last[2][2];
    const char *direction = tsr_onnx_attr_s(c, "direction", "forward");
    size_t directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    bool batch_first = tsr_onnx_attr_i(c, "layout", 0) != 0;
    if (!tsr_onnx_need_rank(c, "X", x, 3, 3) ||
        !tsr_onnx_need_rank(c, "W", tsr_onnx_in(c, 1), 3, 3) ||
        !tsr_onnx_need_rank(c, "R", tsr_onnx_in(c, 2), 3, 3))
        return false;
    uint64_t found = 0, hidden = 0;
    if (!tsr_onnx_known_dim(c, "W", c->inputs[1], 0, &found) ||
        !tsr_onnx_known_dim(c, "R", c->inputs[2], 2, &hidden))
        return false;
    if (found != directions)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "W is for %" PRIu64 " directions, not %zu",
                             found, directions);
    if (batch_first) x = tsr_onnx_swap(c, x, 0, 1);
    for (size_t d = 0; d < directions; d++) {
        layer l = {.gates = cells[kind].gates,
                   .state_count = cells[kind].states,
                   .hidden = (int64_t)hidden,
                   .clip = tsr_onnx_attr_f(c, "clip", 0),
                   .reverse = d == 1 || strcmp(direction, "reverse") == 0,
                   .linear_before_reset = tsr_onnx_attr_i(c, "linear_before_reset", 0) != 0,
                   .input_forget = tsr_onnx_attr_i(c, "input_forget", 0) != 0,
                   .lengths = read_lengths(c, x)};
        if (kind == 2) l.peepholes = direction_of(c, tsr_onnx_in_or_null(c, 7), (int64_t)d);
        for (size_t i = 0; i < l.state_count; i++)
            l.states[i] = initial_state(c, 5 + i, (int64_t)d, x, l.hidden, batch_first);
        if (!read_functions(c, &l, d, cells[kind].functions) || !read_layer(c, x, (int64_t)d, &l) ||
            !run_layer(c, &l, cells[kind].step, &all[d], last[d]))
            return false;
    }
    set_outputs(c, directions, cells[kind].states, all, last, batch_first);
    return !c->failed;
}
