/* SPDX-License-Identifier: Apache-2.0
 *
 * A message begins with its size, so the sizes of all parts are added up first. Parameters are
 * copied in blocks.
 */
#include "compiler/frontend/onnx/export/write.h"

#include "compiler/frontend/onnx/importer.h"
#include "compiler/process/guard.h"
#include "runtime/base/io/io.h"
#include "runtime/data/array_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14, PAIR_KEY = 1, PAIR_VALUE = 2 };
enum { INFO_NAME = 1, INFO_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };
enum { ALIGNMENT = 64, BLOCK_BYTES = 1 << 22 };
#define INLINE_BYTES_MAX ((uint64_t)INT32_MAX - (1 << 20)) /* protocol buffers end at 2 GiB */

typedef struct file {
    tsr_io_atomic atomic;
    const char *path;
    char *block; /* BLOCK_BYTES; borrowed */
    uint64_t offset;
} file;

static TSR_RESULT put(tsr_exporter *x, file *f, const void *bytes, size_t size_bytes) {
    TRY(x->ctx, tsr_io_write_all(x->ctx, f->atomic.fd, f->path, bytes, size_bytes, f->offset));
    f->offset += size_bytes;
    return TSR_SUCCESS;
}

static TSR_RESULT put_buffer(tsr_exporter *x, file *f, const tsr_buffer *buffer) {
    if (buffer->failed) FAIL(x->ctx, TSR_MEMORY, "no memory to write '%s'", f->path);
    return buffer->size_bytes ? put(x, f, buffer->bytes, buffer->size_bytes) : TSR_SUCCESS;
}

static uint64_t param_bytes(const tsr_exported_param *param) {
    uint64_t size_bytes = 0;
    bool fits = tsr_shape_size(&param->type.shape, param->type.dtype, &size_bytes);
    TSR_ASSERT(fits);
    return size_bytes;
}

/* Copies the elements of a parameter. */
static TSR_RESULT put_elements(tsr_exporter *x, file *f, const tsr_exported_param *param) {
    tsr_array *array = NULL;
    uint64_t count = 0, size = tsr_dtype_size(param->type.dtype);
    bool fits = tsr_shape_count(&param->type.shape, &count);
    TSR_ASSERT(fits);
    const char *spec = tsr_arena_printf(&x->arena, "%s:%s", x->options->params_path, param->name);
    TSR_NEED(spec);
    if (count == 0) return TSR_SUCCESS;
    TRY(x->ctx, tsr_array_open(x->ctx, spec, TSR_DTYPE_NONE, &array));
    tsr_result result = TSR_SUCCESS;
    if (tsr_array_get_dtype(array) != param->type.dtype ||
        !tsr_shape_equal(tsr_array_get_shape(array), &param->type.shape))
        FAIL_GOTO(x->ctx, result, TSR_DATA, "parameter '%s' has another type in '%s'", param->name,
                  x->options->params_path);
    for (uint64_t at = 0, part; at < count; at += part) {
        part = count - at < BLOCK_BYTES / size ? count - at : BLOCK_BYTES / size;
        TRY_GOTO(x->ctx, result, tsr_array_read(x->ctx, array, at, part, f->block));
        TRY_GOTO(x->ctx, result, put(x, f, f->block, (size_t)(part * size)));
    }
done:
    tsr_array_close(x->ctx, array);
    return result;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void add_pair(tsr_buffer *out, const char *key, const char *value) {
    tsr_buffer pair = {0};
    tsr_proto_text(&pair, PAIR_KEY, key);
    tsr_proto_text(&pair, PAIR_VALUE, value);
    tsr_proto_message(out, TENSOR_EXTERNAL, &pair);
}

static void describe_param(const tsr_exported_param *param, tsr_buffer *out) {
    for (uint32_t i = 0; i < param->type.shape.rank; i++)
        tsr_proto_int(out, TENSOR_DIMS, (int64_t)param->type.shape.dims[i]);
    tsr_proto_int(out, TENSOR_TYPE, tsr_onnx_type_of_dtype(param->type.dtype));
    tsr_proto_text(out, TENSOR_NAME, param->name);
}

/* The begin of the field of a parameter; its elements follow, unless they are in a file beside. */
static void begin_param(const tsr_exported_param *param, const char *location, uint64_t offset,
                        tsr_buffer *out) {
    tsr_buffer tensor = {0};
    char number[32];
    uint64_t size_bytes = param_bytes(param);
    describe_param(param, &tensor);
    if (location) {
        add_pair(&tensor, "location", location);
        snprintf(number, sizeof number, "%" PRIu64, offset);
        add_pair(&tensor, "offset", number);
        snprintf(number, sizeof number, "%" PRIu64, size_bytes);
        add_pair(&tensor, "length", number);
        tsr_proto_int(&tensor, TENSOR_LOCATION, 1);
        tsr_proto_message(out, GRAPH_INITIALIZER, &tensor);
        return;
    }
    tsr_proto_begin(&tensor, TENSOR_RAW, size_bytes);
    tsr_proto_begin(out, GRAPH_INITIALIZER, tensor.size_bytes + size_bytes);
    tsr_buffer_append(out, tensor.bytes, tensor.size_bytes);
    tsr_buffer_finish(&tensor);
}

static uint64_t align(uint64_t offset) { return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* All parameters, each at a multiple of ALIGNMENT. */
static TSR_RESULT write_data(tsr_exporter *x, file *f) {
    static const char zeros[ALIGNMENT];
    TRY(x->ctx, tsr_io_atomic_open(x->ctx, f->path, &x->arena, &f->atomic));
    for (size_t i = 0; i < x->param_count; i++) {
        TRY(x->ctx, put(x, f, zeros, (size_t)(align(f->offset) - f->offset)));
        TRY(x->ctx, put_elements(x, f, &x->params[i]));
    }
    return TSR_SUCCESS;
}

/* ---- the model ------------------------------------------------------------------------------- */

static void add_port(tsr_buffer *out, uint32_t field, const char *name, const tsr_type *type) {
    tsr_buffer info = {0}, any = {0}, tensor = {0}, shape = {0};
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        tsr_buffer dim = {0};
        char text[TSR_DIM_TEXT_MAX];
        if (tsr_dim_is_known(type->shape.dims[i]))
            tsr_proto_int(&dim, DIM_VALUE, (int64_t)type->shape.dims[i]);
        else
            tsr_proto_text(&dim, DIM_PARAM, tsr_dim_text(type->shape.dims[i], text));
        tsr_proto_message(&shape, SHAPE_DIM, &dim);
    }
    tsr_proto_int(&tensor, TENSOR_ELEMENT, tsr_onnx_type_of_dtype(type->dtype));
    tsr_proto_message(&tensor, TENSOR_SHAPE, &shape);
    tsr_proto_message(&any, TYPE_TENSOR, &tensor);
    tsr_proto_text(&info, INFO_NAME, name);
    tsr_proto_message(&info, INFO_TYPE, &any);
    tsr_proto_message(out, field, &info);
}

static void add_ports(tsr_exporter *x, MlirOperation func, tsr_buffer *out) {
    MlirBlock block = tsr_op_body(func);
    MlirOperation end = mlirBlockGetTerminator(block);
    tsr_proto_text(out, GRAPH_NAME, tsr_op_symbol(func));
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
        MlirValue value = mlirBlockGetArgument(block, i);
        tsr_type type = tsr_type_of(value);
        add_port(out, GRAPH_INPUT, tsr_export_name(x, value), &type);
    }
    for (size_t i = 0; i < x->output_count; i++) {
        tsr_type type = tsr_type_of(tsr_op_operand(end, i));
        add_port(out, GRAPH_OUTPUT, x->output_names[i], &type);
    }
}

static void begin_model(uint64_t graph_bytes, tsr_buffer *out) {
    tsr_buffer opset = {0};
    tsr_proto_int(out, MODEL_IR, TSR_ONNX_IR_MAX);
    tsr_proto_text(out, MODEL_PRODUCER, "tessera");
    tsr_proto_int(&opset, OPSET_VERSION, TSR_ONNX_OPSET_MAX);
    tsr_proto_message(out, MODEL_OPSET, &opset);
    tsr_proto_begin(out, MODEL_GRAPH, graph_bytes);
}

/* The parts of the graph, in the order of the file; the elements of a parameter follow its begin.
 */
typedef struct parts {
    tsr_buffer ports, head;
    tsr_buffer *params;
    const char *location; /* of the file beside; NULL: none */
} parts;

static uint64_t describe(tsr_exporter *x, MlirOperation func, parts *p) {
    uint64_t graph_bytes = 0, offset = 0;
    p->params = TSR_NEW(&x->arena, tsr_buffer, x->param_count + 1);
    TSR_NEED(p->params);
    add_ports(x, func, &p->ports);
    graph_bytes = p->ports.size_bytes + x->nodes.size_bytes + x->constants.size_bytes;
    for (size_t i = 0; i < x->param_count; i++) {
        offset = align(offset);
        begin_param(&x->params[i], p->location, offset, &p->params[i]);
        graph_bytes += p->params[i].size_bytes + (p->location ? 0 : param_bytes(&x->params[i]));
        offset += param_bytes(&x->params[i]);
    }
    begin_model(graph_bytes, &p->head);
    return graph_bytes;
}

static TSR_RESULT write_model(tsr_exporter *x, const parts *p, file *f) {
    TRY(x->ctx, tsr_io_atomic_open(x->ctx, f->path, &x->arena, &f->atomic));
    TRY(x->ctx, put_buffer(x, f, &p->head));
    TRY(x->ctx, put_buffer(x, f, &p->ports));
    TRY(x->ctx, put_buffer(x, f, &x->nodes));
    TRY(x->ctx, put_buffer(x, f, &x->constants));
    for (size_t i = 0; i < x->param_count; i++) {
        TRY(x->ctx, put_buffer(x, f, &p->params[i]));
        if (!p->location) TRY(x->ctx, put_elements(x, f, &x->params[i]));
    }
    return TSR_SUCCESS;
}

/* Both files are complete before either takes the place of an older one. */
static TSR_RESULT write_files(tsr_exporter *x, const parts *p, const char *data_path) {
    char *block = tsr_arena_alloc(&x->arena, BLOCK_BYTES, 1, 64);
    TSR_NEED(block);
    file data = {.path = data_path, .block = block};
    file model = {.path = x->options->path, .block = block};
    tsr_result result = TSR_SUCCESS;
    if (p->location) TRY_GOTO(x->ctx, result, write_data(x, &data));
    TRY_GOTO(x->ctx, result, write_model(x, p, &model));
    if (p->location) TRY_GOTO(x->ctx, result, tsr_io_atomic_commit(x->ctx, &data.atomic));
    TRY_GOTO(x->ctx, result, tsr_io_atomic_commit(x->ctx, &model.atomic));
done:
    tsr_io_atomic_abandon(x->ctx, &data.atomic);
    tsr_io_atomic_abandon(x->ctx, &model.atomic);
    return result;
}

tsr_result tsr_export_write(tsr_exporter *x, MlirOperation func) {
    const char *slash = strrchr(x->options->path, '/');
    const char *data = tsr_arena_printf(&x->arena, "%s.data", x->options->path);
    uint64_t size_bytes = x->nodes.size_bytes + x->constants.size_bytes;
    parts p = {0};
    TSR_NEED(data);
    for (size_t i = 0; i < x->param_count; i++) size_bytes += param_bytes(&x->params[i]);
    if (x->options->is_external || size_bytes > INLINE_BYTES_MAX)
        p.location = slash ? data + (slash + 1 - x->options->path) : data;
    tsr_result result = TSR_SUCCESS;
    uint64_t graph_bytes = describe(x, func, &p);
    if (graph_bytes > INLINE_BYTES_MAX)
        FAIL_GOTO(x->ctx, result, TSR_COMPILE,
                  "the nodes and constants have %" PRIu64 " bytes; a model has at most 2 GiB",
                  graph_bytes);
    TRY_GOTO(x->ctx, result, write_files(x, &p, data));
done:
    tsr_buffer_finish(&p.ports);
    tsr_buffer_finish(&p.head);
    for (size_t i = 0; i < x->param_count; i++) tsr_buffer_finish(&p.params[i]);
    return result;
}
