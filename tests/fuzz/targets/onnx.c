/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of ONNX models: what is accepted can be walked, and the elements of each
 * initializer have the size that type and shape say. Mutations keep the lengths of nested messages
 * right.
 */
#include "compiler/frontend/onnx/tensor.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { TYPE_COUNT = 27, DEPTH_MAX = 8, BYTES = 2 };

/* ---- writing --------------------------------------------------------------------------------- */

static void put_varint(tsr_buffer *out, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        tsr_buffer_append(out, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_int(tsr_buffer *out, uint32_t field, int64_t value) {
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, (uint64_t)value);
}

static void put_bytes(tsr_buffer *out, uint32_t field, const void *bytes, size_t size_bytes) {
    put_varint(out, (uint64_t)field << 3 | BYTES);
    put_varint(out, size_bytes);
    tsr_buffer_append(out, bytes, size_bytes);
}

static void put_text(tsr_buffer *out, uint32_t field, const char *text) {
    put_bytes(out, field, text, strlen(text));
}

/* Closes a message as a field of another. */
static void put_message(tsr_buffer *out, uint32_t field, tsr_buffer *message) {
    put_bytes(out, field, message->bytes ? message->bytes : "", message->size_bytes);
    tsr_buffer_finish(message);
}

/* An initializer of the type, in raw_data, in its typed field, or in another file. */
static void put_tensor(tsr_buffer *out, uint32_t field, int64_t type, uint32_t *state) {
    tsr_buffer t = {0}, entry = {0}, packed = {0};
    const uint32_t count = 1 + fuzz_random(state) % 3;
    const uint8_t raw[64] = {1, 2, 3, 4, 5};
    tsr_dtype dtype = tsr_onnx_type_dtype(type);
    put_int(&t, 1, count);
    if (fuzz_one_in(state, 2)) put_int(&t, 1, 1);
    put_int(&t, 2, type);
    put_text(&t, 8, fuzz_one_in(state, 4) ? "" : "w");
    switch (fuzz_random(state) % 4) {
    case 0:
    case 1:
        put_bytes(&t, 9, raw, count * tsr_dtype_size(dtype));
        break;
    case 2:
        if (dtype == TSR_DTYPE_F32 || dtype == TSR_DTYPE_F64)
            tsr_buffer_append(&packed, raw, count * tsr_dtype_size(dtype));
        else
            for (uint32_t i = 0; i < count; i++) put_varint(&packed, i * 300);
        put_message(&t, dtype == TSR_DTYPE_F32 ? 4 : dtype == TSR_DTYPE_F64 ? 10 : 5, &packed);
        break;
    default:
        put_text(&entry, 1, "location");
        put_text(&entry, 2, fuzz_one_in(state, 2) ? "data.bin" : "../data.bin");
        put_message(&t, 13, &entry);
        put_text(&entry, 1, "offset");
        put_text(&entry, 2, "16");
        put_message(&t, 13, &entry);
        put_int(&t, 14, 1);
    }
    put_message(out, field, &t);
}

static void put_info(tsr_buffer *out, uint32_t field, const char *name, uint32_t *state) {
    tsr_buffer info = {0}, type = {0}, tensor = {0}, shape = {0}, dim = {0};
    put_int(&dim, 1, 2);
    put_message(&shape, 1, &dim);
    put_text(&dim, 2, "N");
    put_message(&shape, 1, &dim);
    put_int(&tensor, 1, 1 + fuzz_random(state) % (TYPE_COUNT - 1));
    put_message(&tensor, 2, &shape);
    put_message(&type, fuzz_one_in(state, 8) ? 4 : 1, &tensor);
    put_text(&info, 1, name);
    put_message(&info, 2, &type);
    put_message(out, field, &info);
}

static void put_graph(tsr_buffer *out, uint32_t field, uint32_t *state, int depth);

static void put_attribute(tsr_buffer *node, uint32_t *state, int depth) {
    tsr_buffer a = {0}, packed = {0};
    const uint32_t kind = fuzz_random(state) % 7;
    const float number = 0.5f;
    put_text(&a, 1, "alpha");
    put_int(&a, 20, kind + 1);
    if (kind == 1) put_int(&a, 3, -1);
    if (kind == 0) {
        put_varint(&a, 2 << 3 | 5);
        tsr_buffer_append(&a, &number, sizeof number);
    }
    if (kind == 2) put_text(&a, 4, "SAME_UPPER");
    if (kind == 3) put_tensor(&a, 5, 1 + fuzz_random(state) % (TYPE_COUNT - 1), state);
    if (kind == 4 && depth < 3) put_graph(&a, 6, state, depth + 1);
    for (int64_t i = -1; i < 3 && kind >= 5; i++) put_varint(&packed, (uint64_t)i);
    if (kind == 6) put_int(&a, 8, 7); /* not packed */
    if (kind >= 5) put_message(&a, 8, &packed);
    if (fuzz_one_in(state, 8)) put_text(&a, 21, "beta");
    put_message(node, 5, &a);
}

static void put_node(tsr_buffer *out, uint32_t field, uint32_t *state, int depth) {
    static const char *const ops[] = {"Relu", "Conv", "If", "Constant", "Reshape"};
    tsr_buffer node = {0};
    put_text(&node, 1, "x");
    put_text(&node, 1, "");
    put_text(&node, 2, "y");
    put_text(&node, 3, "node");
    put_text(&node, 4, ops[fuzz_random(state) % (TSR_COUNT(ops))]);
    for (uint32_t i = fuzz_random(state) % 4; i > 0; i--) put_attribute(&node, state, depth);
    put_message(out, field, &node);
}

static void put_graph(tsr_buffer *out, uint32_t field, uint32_t *state, int depth) {
    tsr_buffer graph = {0};
    put_text(&graph, 2, "g");
    for (uint32_t i = fuzz_random(state) % 3; i > 0; i--) put_node(&graph, 1, state, depth);
    for (uint32_t i = 1 + fuzz_random(state) % 3; i > 0; i--)
        put_tensor(&graph, 5, 1 + fuzz_random(state) % (TYPE_COUNT - 1), state);
    put_info(&graph, 11, "x", state);
    put_info(&graph, 12, "y", state);
    put_message(out, field, &graph);
}

static void put_opset(tsr_buffer *out, uint32_t field) {
    tsr_buffer opset = {0};
    put_text(&opset, 1, "");
    put_int(&opset, 2, 21);
    put_message(out, field, &opset);
}

static size_t encode(uint32_t seed, tsr_arena *arena, const void **out_bytes) {
    tsr_buffer model = {0}, function = {0};
    uint32_t state = seed * 2654435761u + 1;
    put_int(&model, 1, 10);
    put_text(&model, 2, "fuzz");
    put_opset(&model, 8);
    put_graph(&model, 7, &state, 0);
    if (seed % 2) {
        put_text(&function, 1, "f");
        put_text(&function, 4, "x");
        put_text(&function, 5, "y");
        put_node(&function, 7, &state, 1);
        put_opset(&function, 9);
        put_text(&function, 10, "local");
        put_message(&model, 25, &function);
    }
    *out_bytes = tsr_arena_memdup(arena, model.bytes, model.size_bytes);
    size_t size = model.size_bytes;
    tsr_buffer_finish(&model);
    return size;
}

static void seed(const char *folder) { fuzz_put_valid(folder, 16, encode); }

/* ---- the wire format ----------------------------------------------------------------------- */

static size_t read_varint(const uint8_t *at, const uint8_t *end, uint64_t *out) {
    *out = 0;
    for (size_t i = 0; i < 10 && at + i < end; i++) {
        *out |= (uint64_t)(at[i] & 0x7f) << (7 * i);
        if (!(at[i] & 0x80)) return i + 1;
    }
    return 0;
}

/* The bytes of the field at `at`, with its key; `out_inner` is what a field of bytes holds. */
static size_t field_size(const uint8_t *at, const uint8_t *end, uint32_t *out_type,
                         size_t *out_inner) {
    uint64_t key = 0, value = 0;
    size_t size = read_varint(at, end, &key), more = 0;
    *out_type = (uint32_t)(key & 7);
    *out_inner = 0;
    if (!size) return 0;
    if (*out_type == 1 || *out_type == 5) return size + (*out_type == 1 ? 8 : 4);
    more = read_varint(at + size, end, &value);
    if (!more) return 0;
    if (*out_type != BYTES) return size + more;
    if (value > (uint64_t)(end - at) - size - more) return 0;
    *out_inner = (size_t)value;
    return size + more + (size_t)value;
}

/* True if the bytes are fields, one after the other: the outermost message can be read. */
static bool is_message(const uint8_t *bytes, size_t size_bytes) {
    const uint8_t *at = bytes, *end = bytes + size_bytes;
    size_t length = 0, inner = 0;
    uint32_t type = 0;
    for (; at < end; at += length) {
        length = field_size(at, end, &type, &inner);
        if (length == 0 || length > (size_t)(end - at)) return false;
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static unsigned touched; /* keeps the reads below */

static void walk_tensor(tsr_ctx *ctx, tsr_onnx_files *files, const tsr_onnx_tensor *tensor) {
    tsr_arena arena = {0};
    tsr_tensor view;
    uint64_t size = 0;
    tsr_result result = tsr_onnx_elements(ctx, files, tensor, &arena, &view);
    bool known = !result.code || result.code == TSR_COMPILE || result.code == TSR_IO ||
                 (fuzz_faults && result.code == TSR_MEMORY);
    fuzz_require(known, "a code for a bad tensor");
    if (!result.code) {
        fuzz_require(tsr_shape_size(&view.shape, view.dtype, &size), "a size");
        for (uint64_t i = 0; i < size; i++) touched += ((const uint8_t *)view.data)[i];
    }
    tsr_arena_finish(&arena);
}

static void walk_graph(tsr_ctx *ctx, tsr_onnx_files *files, const tsr_onnx_graph *graph);

static void walk_nodes(tsr_ctx *ctx, tsr_onnx_files *files, tsr_wire_list nodes) {
    for (size_t i = 0; i < nodes.count; i++) {
        const tsr_onnx_node *node = TSR_ONNX_ITEM(nodes, tsr_onnx_node, i);
        touched += (unsigned)(strlen(node->name) + strlen(node->op_type) + strlen(node->domain));
        for (size_t k = 0; k < node->attributes.count; k++) {
            const tsr_onnx_attribute *a = TSR_ONNX_ITEM(node->attributes, tsr_onnx_attribute, k);
            for (size_t n = 0; n < a->ints.count; n++)
                touched += (unsigned)TSR_ONNX_INT(a->ints, n);
            if (a->t) walk_tensor(ctx, files, a->t);
            if (a->g) walk_graph(ctx, files, a->g);
        }
    }
}

static void walk_graph(tsr_ctx *ctx, tsr_onnx_files *files, const tsr_onnx_graph *graph) {
    for (size_t i = 0; i < graph->initializers.count; i++)
        walk_tensor(ctx, files, TSR_ONNX_ITEM(graph->initializers, tsr_onnx_tensor, i));
    for (size_t i = 0; i < graph->inputs.count; i++)
        touched += (unsigned)strlen(TSR_ONNX_ITEM(graph->inputs, tsr_onnx_value_info, i)->name);
    walk_nodes(ctx, files, graph->nodes);
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_onnx_model model;
    tsr_onnx_files files = {.folder = "/nonexistent"};
    tsr_result result = tsr_onnx_model_read(&ctx, bytes, size_bytes, &arena, &model);
    bool known =
        !result.code || result.code == TSR_COMPILE || (fuzz_faults && result.code == TSR_MEMORY);
    fuzz_require(known, "a code for a bad model");
    if (!result.code) {
        walk_graph(&ctx, &files, model.graph);
        touched += (unsigned)tsr_onnx_opset_version(model.opsets, "ai.onnx");
        for (size_t i = 0; i < model.functions.count; i++)
            walk_nodes(&ctx, &files, TSR_ONNX_ITEM(model.functions, tsr_onnx_function, i)->nodes);
    }
    tsr_onnx_files_finish(&files);
    tsr_arena_finish(&arena);
    return is_message(bytes, size_bytes);
}

/* ---- mutating -------------------------------------------------------------------------------- */

static void change_message(const uint8_t *bytes, size_t size, int depth, uint32_t *state,
                           tsr_buffer *out);

/* Writes the field unchanged, twice, not at all, or with other contents. */
static void change_field(const uint8_t *at, size_t size, uint32_t type, size_t inner, int depth,
                         uint32_t *state, tsr_buffer *out) {
    uint8_t part[256];
    tsr_buffer changed = {0};
    uint64_t key = 0;
    read_varint(at, at + size, &key);
    if (fuzz_one_in(state, 12)) return;
    if (fuzz_one_in(state, 12)) tsr_buffer_append(out, at, size);
    if (type == 0 && fuzz_one_in(state, 2)) {
        put_int(out, (uint32_t)(key >> 3), (int64_t)(fuzz_random(state) % 32) - 2);
    } else if (type == BYTES && depth < DEPTH_MAX && fuzz_one_in(state, 2)) {
        change_message(at + size - inner, inner, depth + 1, state, &changed);
        put_message(out, (uint32_t)(key >> 3), &changed);
    } else if (type == BYTES && inner <= sizeof part / 2) {
        memcpy(part, at + size - inner, inner);
        size_t now = LLVMFuzzerMutate(part, inner, sizeof part);
        put_bytes(out, (uint32_t)(key >> 3), part, now);
    } else {
        tsr_buffer_append(out, at, size);
    }
}

static void change_message(const uint8_t *bytes, size_t size, int depth, uint32_t *state,
                           tsr_buffer *out) {
    const uint8_t *at = bytes, *end = bytes + size;
    size_t count = 0, inner = 0, length = 0;
    uint32_t type = 0;
    for (; at < end && (length = field_size(at, end, &type, &inner)) > 0 &&
           length <= (size_t)(end - at);
         at += length)
        count++;
    size_t chosen = count ? fuzz_random(state) % count : 0;
    at = bytes;
    for (size_t i = 0; i < count; i++, at += length) {
        length = field_size(at, end, &type, &inner);
        if (i == chosen)
            change_field(at, length, type, inner, depth, state, out);
        else
            tsr_buffer_append(out, at, length);
    }
    tsr_buffer_append(out, at, (size_t)(end - at)); /* what is no field */
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed_number) {
    uint32_t state = seed_number;
    tsr_buffer out = {0};
    size_t size = fuzz_another_valid(bytes, size_bytes, size_max, &state, encode);
    if (fuzz_one_in(&state, 8)) return LLVMFuzzerMutate(bytes, size, size_max);
    change_message(bytes, size, 0, &state, &out);
    if (out.size_bytes && out.size_bytes <= size_max && !out.failed) {
        size = out.size_bytes;
        memcpy(bytes, out.bytes, size);
    }
    tsr_buffer_finish(&out);
    return size;
}

const fuzz_target fuzz_the_target = {"onnx", seed, run, mutate};
