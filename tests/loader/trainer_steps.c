/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: trainer-steps BUNDLE DEVICE host|device|dlpack STEPS NAME=FILE…
 *
 * Trains step by step with the batches of tessera-run and seed 0, and prints the state as
 * tessera-run does. device: batches, outputs and a parameter are in memory of the GPU that this
 * program has allocated itself. Afterwards the parameter is read, written back and read again: the
 * same values, in both kinds of memory. dlpack: the same with tensors of DLPack, matrices by
 * columns, which a stream of this program is still copying when a step begins; afterwards an entry
 * of kind infer that takes the first input is called with memory of the GPU and of the host.
 */
#include "loader/model.h"
#include "runtime/data/dataset.h"
#include "runtime/device/gpu/driver.h"
#include "tessera/tessera.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct steps {
    tsr_ctx ctx;
    bool on_device; /* batches are in memory of the GPU */
    bool by_dlpack;
    tsr_gpu_driver driver;
    struct tsr_gpu_context *context;
    struct tsr_gpu_stream *stream;
    tsr_model *model;
    tsr_trainer *trainer;
    const tsr_config_entry *entry;
    tsr_dataset *data;
    size_t input_count, output_count;
    void *host[TSR_CONFIG_PORTS_MAX]; /* the batch, for each input */
    tsr_view inputs[TSR_CONFIG_PORTS_MAX], outputs[TSR_CONFIG_PORTS_MAX];
} steps;

static uint64_t size_of(const tsr_view *view) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&view->shape, view->dtype, &size);
    TSR_ASSERT(fits);
    return size;
}

/* ---- memory of the GPU, as a program has it ---- */

static tsr_result open_gpu(tsr_ctx *ctx, steps *self, const char *device) {
    tsr_gpu_info gpu;
    const char *selector = strchr(device, ':');
    TRY(ctx, tsr_gpu_open(ctx, tsr_device_cuda.gpu, NULL, &self->driver));
    TRY(ctx, tsr_gpu_find(ctx, &self->driver, selector ? selector + 1 : NULL, &gpu));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, context_retain, device, &self->context, gpu.device));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, context_set, device, self->context));
    return TSR_GPU_CALL(ctx, &self->driver, stream_create, device, &self->stream, 0);
}

static tsr_result allocate(tsr_ctx *ctx, steps *self, tsr_view *view) {
    tsr_gpu_address address = 0;
    uint64_t size = size_of(view);
    view->location = self->on_device ? TSR_LOCATION_DEVICE : TSR_LOCATION_HOST;
    if (!self->on_device) {
        view->data = calloc(1, (size_t)size + 1);
        if (!view->data) FAIL(ctx, TSR_MEMORY, "no memory for '%s'", view->name);
        return TSR_SUCCESS;
    }
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, context_set, "memory", self->context));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, allocate, "memory", &address, (size_t)size + 1,
                          self->stream));
    view->data = (void *)(uintptr_t)address;
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait, "memory", self->stream);
}

/* Copies host memory to a view, or back. With DLPack the copy to the GPU may still run when this
 * returns. */
static tsr_result fill(tsr_ctx *ctx, steps *self, const tsr_view *view, const void *from) {
    size_t size = (size_t)size_of(view);
    if (!self->on_device) {
        memcpy(view->data, from, size);
        return TSR_SUCCESS;
    }
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, context_set, "memory", self->context));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, upload, "memory",
                          (tsr_gpu_address)(uintptr_t)view->data, from, size, self->stream));
    if (self->by_dlpack) return TSR_SUCCESS;
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait, "memory", self->stream);
}

static tsr_result fetch(tsr_ctx *ctx, steps *self, const tsr_view *view, void *to) {
    size_t size = (size_t)size_of(view);
    if (!self->on_device) {
        memcpy(to, view->data, size);
        return TSR_SUCCESS;
    }
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, context_set, "memory", self->context));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, download, "memory", to,
                          (tsr_gpu_address)(uintptr_t)view->data, size, self->stream));
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait, "memory", self->stream);
}

/* ---- training ---- */

static tsr_result open_data(tsr_ctx *ctx, steps *self, char **bound, size_t bound_count) {
    tsr_dataset_port ports[TSR_CONFIG_PORTS_MAX];
    tsr_dataset_binding bindings[TSR_CONFIG_PORTS_MAX];
    const tsr_dataset_options options = {.size_bytes = sizeof options,
                                         .rows_min = self->entry->batch};
    for (size_t i = 0; i < self->entry->input_count; i++) {
        const tsr_config_port *port = &self->entry->inputs[i];
        if (port->source != TSR_PORT_DATA) continue;
        ports[self->input_count] = (tsr_dataset_port){port->name, port->dtype, port->shape};
        tsr_view *view = &self->inputs[self->input_count];
        *view = (tsr_view){.name = port->name, .dtype = port->dtype, .shape = port->shape};
        self->host[self->input_count] = calloc(1, (size_t)size_of(view) + 1);
        TSR_ASSERT(self->host[self->input_count]);
        TRY(ctx, allocate(ctx, self, view));
        self->input_count++;
    }
    for (size_t i = 0; i < bound_count; i++) {
        char *equals = strchr(bound[i], '=');
        if (!equals) FAIL(ctx, TSR_USAGE, "'%s' is not NAME=FILE", bound[i]);
        *equals = 0;
        bindings[i] = (tsr_dataset_binding){bound[i], equals + 1};
    }
    return tsr_dataset_open(ctx, ports, self->input_count, bindings, bound_count, &options,
                            &self->data);
}

static tsr_result open_outputs(tsr_ctx *ctx, steps *self) {
    for (size_t i = 0; i < self->entry->output_count; i++) {
        const tsr_config_port *port = &self->entry->outputs[i];
        tsr_view *view = &self->outputs[self->output_count];
        if (port->watched) continue;
        *view = (tsr_view){.name = port->name, .dtype = port->dtype, .shape = port->shape};
        TRY(ctx, allocate(ctx, self, view));
        self->output_count++;
    }
    return TSR_SUCCESS;
}

/* The outputs in the caller's memory are those that the trainer shows. */
static tsr_result compare_outputs(tsr_ctx *ctx, steps *self) {
    size_t count = 0;
    const tsr_tensor *shown = tsr_trainer_get_outputs(self->trainer, &count);
    if (count != self->output_count)
        FAIL(ctx, TSR_INTERNAL, "%zu outputs; expected %zu", count, self->output_count);
    for (size_t i = 0; i < count; i++) {
        size_t size = (size_t)size_of(&self->outputs[i]);
        void *copy = malloc(size + 1);
        TSR_ASSERT(copy);
        tsr_result result = fetch(ctx, self, &self->outputs[i], copy);
        bool same = !result.code && memcmp(copy, shown[i].data, size) == 0;
        free(copy);
        TRY(ctx, result);
        if (!same) FAIL(ctx, TSR_INTERNAL, "output '%s' differs", shown[i].name);
    }
    return TSR_SUCCESS;
}

/* ---- DLPack ---- */

typedef struct exported {
    tsr_dlpack_managed managed;
    int64_t dims[TSR_RANK_MAX], strides[TSR_RANK_MAX];
} exported;

static bool is_matrix(const tsr_view *view) { return view->shape.rank == 2; }

/* Stores a matrix by columns. */
static void transpose(const tsr_view *view, void *elements) {
    size_t size = (size_t)size_of(view), each = tsr_dtype_size(view->dtype);
    uint64_t rows = view->shape.dims[0], columns = view->shape.dims[1];
    char *copy = malloc(size + 1);
    TSR_ASSERT(copy);
    memcpy(copy, elements, size);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++)
            memcpy((char *)elements + (c * rows + r) * each, copy + (r * columns + c) * each, each);
    free(copy);
}

static tsr_dlpack_view export(exported *out, const tsr_view *view, bool by_columns) {
    *out = (exported){.managed = {.version = {1, 0},
                                  .tensor = {.data = view->data,
                                             .device = {TSR_DLPACK_CUDA, 0},
                                             .rank = (int32_t)view->shape.rank,
                                             .dtype = tsr_dlpack_make_dtype(view->dtype),
                                             .dims = out->dims}}};
    for (uint32_t d = 0; d < view->shape.rank; d++) out->dims[d] = (int64_t)view->shape.dims[d];
    if (by_columns && is_matrix(view)) {
        out->strides[0] = 1;
        out->strides[1] = out->dims[0];
        out->managed.tensor.strides = out->strides;
    }
    return (tsr_dlpack_view){view->name, &out->managed};
}

static tsr_result step_by_dlpack(tsr_ctx *ctx, steps *self) {
    static exported in[TSR_CONFIG_PORTS_MAX], out[TSR_CONFIG_PORTS_MAX];
    static tsr_dlpack_view inputs[TSR_CONFIG_PORTS_MAX], outputs[TSR_CONFIG_PORTS_MAX];
    const tsr_dlpack_options options = {.size_bytes = sizeof options, .stream = self->stream};
    for (size_t i = 0; i < self->input_count; i++)
        inputs[i] = export(&in[i], &self->inputs[i], true);
    for (size_t i = 0; i < self->output_count; i++)
        outputs[i] = export(&out[i], &self->outputs[i], false);
    in[0].managed.tensor.device.number = 7;
    tsr_ctx apart = {0};
    if (tsr_trainer_step_dlpack(&apart, self->trainer, &options, inputs, self->input_count, outputs,
                                self->output_count)
            .code != TSR_USAGE)
        FAIL(ctx, TSR_INTERNAL, "a tensor of GPU 7 is not refused");
    in[0].managed.tensor.device.number = 0;
    return tsr_trainer_step_dlpack(ctx, self->trainer, &options, inputs, self->input_count, outputs,
                                   self->output_count);
}

/* The entry that takes the first input, called in both kinds of memory. */
static tsr_result call_by_dlpack(tsr_ctx *ctx, steps *self) {
    const tsr_config *config = tsr_model_get_config(self->model);
    const tsr_view *x = &self->inputs[0];
    for (size_t i = 0; i < config->entry_count; i++) {
        const tsr_config_entry *entry = &config->entries[i];
        const tsr_config_port *to = entry->inputs, *from = entry->outputs;
        if (entry->kind != TSR_ENTRY_INFER || entry->input_count != 1 || entry->output_count != 1 ||
            to->dtype != x->dtype || !tsr_shape_equal(&to->shape, &x->shape))
            continue;
        exported in, out;
        tsr_view y = {.name = from->name, .dtype = from->dtype, .shape = from->shape};
        const tsr_dlpack_options options = {.size_bytes = sizeof options, .stream = self->stream};
        size_t size = (size_t)size_of(&y);
        char *there = malloc(size + 1);
        TSR_ASSERT(there);
        TRY(ctx, allocate(ctx, self, &y));
        TRY(ctx, fill(ctx, self, x, self->host[0]));
        tsr_dlpack_view input = export(&in, x, true), output = export(&out, &y, false);
        input.name = to->name;
        TRY(ctx,
            tsr_model_call_dlpack(ctx, self->model, entry->name, &options, &input, 1, &output, 1));
        TRY(ctx, fetch(ctx, self, &y, there));
        in.managed.tensor.data = self->host[0];
        in.managed.tensor.device.type = TSR_DLPACK_CPU;
        output.tensor = NULL;
        TRY(ctx, tsr_model_call_dlpack(ctx, self->model, entry->name, NULL, &input, 1, &output, 1));
        bool same = memcmp(there, output.tensor->tensor.data, size) == 0;
        output.tensor->deleter(output.tensor);
        free(there);
        if (!same) FAIL(ctx, TSR_INTERNAL, "output '%s' differs", from->name);
        printf("called %s\n", entry->name);
    }
    return TSR_SUCCESS;
}

static tsr_result train(tsr_ctx *ctx, steps *self, uint64_t last) {
    const tsr_position *position = tsr_trainer_get_position(self->trainer);
    while (position->step < last) {
        TRY(ctx, tsr_dataset_batch(ctx, self->data, (uint32_t)position->seed, position->sample,
                                   self->entry->batch, self->host));
        for (size_t i = 0; i < self->input_count; i++) {
            if (self->by_dlpack && is_matrix(&self->inputs[i]))
                transpose(&self->inputs[i], self->host[i]);
            TRY(ctx, fill(ctx, self, &self->inputs[i], self->host[i]));
        }
        TRY(ctx, self->by_dlpack
                     ? step_by_dlpack(ctx, self)
                     : tsr_trainer_step(ctx, self->trainer, self->inputs, self->input_count,
                                        self->outputs, self->output_count));
        TRY(ctx, compare_outputs(ctx, self));
    }
    return TSR_SUCCESS;
}

static tsr_result compare_parameter(tsr_ctx *ctx, steps *self) {
    size_t count = 0;
    const tsr_tensor *state = tsr_model_get_state(self->model, &count);
    const tsr_config_tensor *tensor = NULL;
    for (size_t i = 0; i < count && !tensor; i++) {
        tensor = tsr_config_find_tensor(tsr_model_get_config(self->model), state[i].name);
        if (tensor->role != TSR_ROLE_PARAM) tensor = NULL;
    }
    if (!tensor) FAIL(ctx, TSR_INTERNAL, "no parameter");
    tsr_view view = {.name = tensor->name, .dtype = tensor->dtype, .shape = tensor->shape};
    size_t size = (size_t)size_of(&view);
    char *before = malloc(size + 1), *after = malloc(size + 1);
    TSR_ASSERT(before && after);
    TRY(ctx, allocate(ctx, self, &view));
    TRY(ctx, tsr_model_read_tensor(ctx, self->model, &view));
    TRY(ctx, fetch(ctx, self, &view, before));
    TRY(ctx, tsr_model_write_tensor(ctx, self->model, &view));
    tsr_view on_host = view;
    on_host.location = TSR_LOCATION_HOST;
    on_host.data = after;
    TRY(ctx, tsr_model_read_tensor(ctx, self->model, &on_host));
    bool same = memcmp(before, after, size) == 0 &&
                memcmp(before, tsr_tensor_find(state, count, view.name)->data, size) == 0;
    free(before);
    free(after);
    if (!same) FAIL(ctx, TSR_INTERNAL, "parameter '%s' differs", view.name);
    return TSR_SUCCESS;
}

static tsr_result run(tsr_ctx *ctx, steps *self, int argc, char **argv) {
    const tsr_model_options open = {.size_bytes = sizeof open, .device = argv[2]};
    tsr_digest before, after;
    size_t entry = 0;
    char hex[TSR_DIGEST_HEX + 1];
    self->by_dlpack = strcmp(argv[3], "dlpack") == 0;
    self->on_device = self->by_dlpack || strcmp(argv[3], "device") == 0;
    if (self->on_device) TRY(ctx, open_gpu(ctx, self, argv[2]));
    TRY(ctx, tsr_model_open(ctx, argv[1], &open, &self->model));
    TRY(ctx, tsr_model_find_entry(ctx, self->model, NULL, TSR_ENTRY_TRAIN, &entry));
    self->entry = &tsr_model_get_config(self->model)->entries[entry];
    TRY(ctx, open_data(ctx, self, argv + 5, (size_t)argc - 5));
    TRY(ctx, open_outputs(ctx, self));
    TRY(ctx, tsr_trainer_open(ctx, self->model, NULL, &self->trainer));
    TRY(ctx, train(ctx, self, strtoull(argv[4], NULL, 10)));
    TRY(ctx, tsr_model_hash_state(ctx, self->model, &before));
    TRY(ctx, compare_parameter(ctx, self));
    TRY(ctx, tsr_model_hash_state(ctx, self->model, &after));
    if (!tsr_digest_equal(&before, &after)) FAIL(ctx, TSR_INTERNAL, "the state differs");
    if (self->by_dlpack) TRY(ctx, call_by_dlpack(ctx, self));
    tsr_digest_format(&after, hex);
    printf("state %s step %" PRIu64 "\n", hex, tsr_trainer_get_position(self->trainer)->step);
    return TSR_SUCCESS;
}

/* What it has allocated goes with the process. */
int main(int argc, char **argv) {
    static steps self;
    if (argc < 6) {
        fprintf(stderr,
                "usage: trainer-steps BUNDLE DEVICE host|device|dlpack STEPS NAME=FILE...\n");
        return TSR_USAGE;
    }
    tsr_result result = run(&self.ctx, &self, argc, argv);
    if (result.code) fprintf(stderr, "trainer-steps: %s\n", self.ctx.error.text);
    tsr_trainer_close(&self.ctx, self.trainer);
    tsr_model_close(&self.ctx, self.model);
    tsr_dataset_close(&self.ctx, self.data);
    return (int)result.code;
}
