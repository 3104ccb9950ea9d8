/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifies a program. The byte form is in program_bytes.c, the listing in program_text.c.
 */
#include "manifests/program.h"

#include "runtime/base/array.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is known of one PREPACKED buffer. */
typedef struct prepacked {
    const tsr_program_buffer *buffer;   /* the first of its index */
    const tsr_program_command *command; /* the first that writes it, and what it reads */
    const tsr_program_buffer *tensor;
    uint32_t ready_in; /* 1 + the last entry that has written it */
} prepacked;

/* What is being looked at; the names are verified before a subject is made of them. */
typedef struct checker {
    tsr_ctx *ctx;
    tsr_code code;
    const tsr_program *program;
    const tsr_config *config;
    prepacked *prepacked;
    uint32_t prepacked_count;
    bool *changed; /* tensors that the entry writes */
    uint32_t entry;
    const char *what; /* "buffers", "commands" */
    uint32_t index;
} checker;

#define EXPECT(p, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            tsr_result r_ = tsr_fail_((p)->ctx, (p)->code, 0, __FILE__, __LINE__, __VA_ARGS__);    \
            return tsr_error_prefix((p)->ctx, r_, "program: entry '%s': %s[%u]",                   \
                                    (p)->config->entries[(p)->entry].name, (p)->what, (p)->index); \
        }                                                                                          \
    } while (0)

uint64_t tsr_program_buffer_size(const tsr_program_buffer *buffer) {
    uint64_t size_bytes = 0;
    bool fits = tsr_shape_size(&buffer->shape, buffer->dtype, &size_bytes);
    TSR_ASSERT(fits);
    return size_bytes;
}

const tsr_program_buffer *tsr_program_next_prepacked(const tsr_program *program,
                                                     tsr_prepacked_cursor *cursor) {
    for (; cursor->entry < program->entry_count; cursor->entry++, cursor->buffer = 0) {
        const tsr_program_entry *entry = &program->entries[cursor->entry];
        while (cursor->buffer < entry->buffer_count) {
            const tsr_program_buffer *buffer = &entry->buffers[cursor->buffer++];
            if (buffer->space != TSR_SPACE_PREPACKED || buffer->index != cursor->index) continue;
            cursor->index++;
            return buffer;
        }
    }
    return NULL;
}

uint32_t tsr_program_prepacked_count(const tsr_program *program) {
    tsr_prepacked_cursor cursor = {0};
    while (tsr_program_next_prepacked(program, &cursor)) {
    }
    return cursor.index;
}

bool tsr_program_splits(const tsr_config *config, const tsr_config_entry *entry,
                        const tsr_config_port *input) {
    return config->virtual_ranks > 1 && entry->kind == TSR_ENTRY_TRAIN &&
           input->source == TSR_PORT_DATA;
}

static bool has_offset(tsr_space space) {
    return space == TSR_SPACE_WORKSPACE || space == TSR_SPACE_HOST || space == TSR_SPACE_VRANK ||
           space == TSR_SPACE_SUMS;
}

uint64_t tsr_program_space_bytes(const tsr_program_entry *entry, tsr_space space) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < entry->buffer_count; i++) {
        const tsr_program_buffer *buffer = &entry->buffers[i];
        if (buffer->space != space) continue;
        uint64_t end = buffer->offset_bytes + tsr_program_buffer_size(buffer);
        if (end > bytes) bytes = end;
    }
    return (bytes + TSR_PROGRAM_ALIGN_BYTES - 1) / TSR_PROGRAM_ALIGN_BYTES *
           TSR_PROGRAM_ALIGN_BYTES;
}

/* ---- kernels ---- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_identifier(const char *text) {
    if (!tsr_name_valid(text) || !is_letter(text[0])) return false;
    for (; *text; text++)
        if (!is_letter(*text) && !(*text >= '0' && *text <= '9')) return false;
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static TSR_RESULT check_kernels(tsr_ctx *ctx, const tsr_program *program, tsr_code code) {
    tsr_result result = TSR_SUCCESS;
    const char **sorted = NULL;
    if (program->kernel_count > TSR_PROGRAM_KERNELS_MAX)
        FAIL(ctx, code, "program: expected at most %d kernels, got %u", TSR_PROGRAM_KERNELS_MAX,
             program->kernel_count);
    sorted = calloc((size_t)program->kernel_count + 1, sizeof *sorted);
    if (!sorted) FAIL(ctx, TSR_MEMORY, "no memory for %u kernels", program->kernel_count);
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        sorted[i] = program->kernels[i];
        if (!is_identifier(sorted[i]))
            FAIL_GOTO(ctx, result, code,
                      "program: kernels[%u]: expected a symbol [A-Za-z_][A-Za-z0-9_]*, got '%s'", i,
                      tsr_name_valid(sorted[i]) ? sorted[i] : "?");
    }
    qsort(sorted, program->kernel_count, sizeof *sorted, compare_names);
    for (uint32_t i = 1; i < program->kernel_count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            FAIL_GOTO(ctx, result, code,
                      "program: kernels: expected each symbol once, got '%s' again", sorted[i]);
done:
    free(sorted);
    return result;
}

/* ---- buffers ---- */

/* A vector, or rows of the tensor if `as` has them. */
static tsr_shape part_shape(const tsr_config *config, const tsr_config_tensor *tensor,
                            const tsr_shape *as) {
    tsr_shape part = tensor->shape;
    if (part.rank > 1 && part.dims[0] % config->virtual_ranks == 0) {
        part.dims[0] /= config->virtual_ranks;
        if (tsr_shape_equal(&part, as)) return part;
    }
    part = (tsr_shape){.rank = 1};
    bool fits = tsr_shape_count(&tensor->shape, &part.dims[0]);
    TSR_ASSERT(fits); /* a valid config */
    part.dims[0] = tsr_collective_part(part.dims[0], config->virtual_ranks);
    return part;
}

/* A buffer bound to something of the config: same dtype, same shape. */
static TSR_RESULT check_bound(const checker *p, const tsr_program_buffer *buffer) {
    const tsr_config_entry *entry = &p->config->entries[p->entry];
    tsr_dtype dtype;
    const tsr_shape *shape;
    const char *space, *name;
    tsr_shape part;
    bool of_tensor = buffer->space == TSR_SPACE_TENSOR || buffer->space == TSR_SPACE_PART;
    size_t count = of_tensor                          ? p->config->tensor_count
                   : buffer->space == TSR_SPACE_INPUT ? entry->input_count
                                                      : entry->output_count;
    EXPECT(p, buffer->index < count, "index: expected less than %zu, got %u", count, buffer->index);
    EXPECT(p, buffer->offset_bytes == 0, "offset: expected 0, got %" PRIu64, buffer->offset_bytes);
    if (of_tensor) {
        const tsr_config_tensor *tensor = &p->config->tensors[buffer->index];
        bool whole = buffer->space == TSR_SPACE_TENSOR;
        part = part_shape(p->config, tensor, &buffer->shape);
        space = whole ? "tensor" : "a virtual rank's part of tensor";
        name = tensor->name, dtype = tensor->dtype, shape = whole ? &tensor->shape : &part;
    } else {
        bool input = buffer->space == TSR_SPACE_INPUT;
        const tsr_config_port *port = &(input ? entry->inputs : entry->outputs)[buffer->index];
        space = input ? "input" : "output";
        name = port->name, dtype = port->dtype, shape = &port->shape;
        if (input && tsr_program_splits(p->config, entry, port)) {
            part = port->shape;
            part.dims[0] /= p->config->virtual_ranks;
            shape = &part;
        }
    }
    char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
    EXPECT(p, dtype == buffer->dtype && tsr_shape_equal(shape, &buffer->shape),
           "expected %s as %s '%s' has, got %s", tsr_type_format(dtype, shape, wanted), space, name,
           tsr_type_format(buffer->dtype, &buffer->shape, got));
    return TSR_SUCCESS;
}

static TSR_RESULT check_prepacked(const checker *p, const tsr_program_buffer *buffer) {
    char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
    EXPECT(p, buffer->index < p->prepacked_count, "index: expected less than %u, got %u",
           p->prepacked_count, buffer->index);
    EXPECT(p, buffer->index == 0 || p->prepacked[buffer->index - 1].buffer,
           "index: expected prepacked buffer %u before %u, got none", buffer->index - 1,
           buffer->index);
    EXPECT(p, buffer->offset_bytes == 0, "offset: expected 0, got %" PRIu64, buffer->offset_bytes);
    prepacked *known = &p->prepacked[buffer->index];
    if (!known->buffer) known->buffer = buffer;
    EXPECT(p,
           known->buffer->dtype == buffer->dtype &&
               tsr_shape_equal(&known->buffer->shape, &buffer->shape),
           "expected %s as prepacked buffer %u has elsewhere, got %s",
           tsr_type_format(known->buffer->dtype, &known->buffer->shape, wanted), buffer->index,
           tsr_type_format(buffer->dtype, &buffer->shape, got));
    return TSR_SUCCESS;
}

static bool has_vranks(const checker *p) {
    return p->config->virtual_ranks > 1 && p->config->entries[p->entry].kind == TSR_ENTRY_TRAIN;
}

static TSR_RESULT check_buffer(const checker *p, const tsr_program_buffer *buffer) {
    uint64_t size, capacity = p->program->entries[p->entry].workspace_bytes;
    char text[TSR_TYPE_TEXT_MAX];
    EXPECT(p, tsr_text_valid(buffer->name, TSR_PROGRAM_TEXT_MAX),
           "name: expected at most %d bytes of printable UTF-8, got others", TSR_PROGRAM_TEXT_MAX);
    EXPECT(p, tsr_dtype_size(buffer->dtype), "dtype: expected a known number, got %u",
           (unsigned)buffer->dtype);
    EXPECT(p, buffer->shape.rank <= TSR_RANK_MAX, "rank: expected 0 ... %d, got %u", TSR_RANK_MAX,
           buffer->shape.rank);
    tsr_shape whole = buffer->shape; /* the strides must fit even if a dimension is empty */
    for (uint32_t i = 0; i < whole.rank; i++)
        if (whole.dims[i] == 0) whole.dims[i] = 1;
    EXPECT(p,
           tsr_shape_size(&whole, buffer->dtype, &size) &&
               tsr_shape_size(&buffer->shape, buffer->dtype, &size),
           "expected less than 2^63 bytes, got %s",
           tsr_type_format(buffer->dtype, &buffer->shape, text));
    EXPECT(p,
           (buffer->space >= TSR_SPACE_TENSOR && buffer->space <= TSR_SPACE_SIZE) ||
               (buffer->space >= TSR_SPACE_VRANK && buffer->space <= TSR_SPACE_PART),
           "space: expected 1 ... %d or %d ... %d, got %u", TSR_SPACE_SIZE, TSR_SPACE_VRANK,
           TSR_SPACE_PART, (unsigned)buffer->space);
    bool part = buffer->space == TSR_SPACE_PART && p->config->virtual_ranks > 1;
    EXPECT(p, buffer->space <= TSR_SPACE_SIZE || has_vranks(p) || part,
           "space: expected one of an entry without virtual ranks, got %u",
           (unsigned)buffer->space);
    EXPECT(p, buffer->space != TSR_SPACE_HOST || !has_vranks(p),
           "space: expected none of the host in an entry with virtual ranks, got %u",
           (unsigned)buffer->space);
    if (buffer->space == TSR_SPACE_PREPACKED) return check_prepacked(p, buffer);
    if (buffer->space == TSR_SPACE_SIZE) return TSR_SUCCESS; /* the rest is in sizes.c */
    if (buffer->space < TSR_SPACE_WORKSPACE || buffer->space == TSR_SPACE_PART)
        return check_bound(p, buffer);
    EXPECT(p, buffer->index == 0, "index: expected 0 in the workspace, got %u", buffer->index);
    if (buffer->space == TSR_SPACE_VRANK_NUMBER) {
        EXPECT(p,
               buffer->dtype == TSR_DTYPE_I64 && buffer->shape.rank == 0 &&
                   buffer->offset_bytes == 0,
               "expected a scalar i64 at offset 0, got %s at %" PRIu64,
               tsr_type_format(buffer->dtype, &buffer->shape, text), buffer->offset_bytes);
        return TSR_SUCCESS;
    }
    EXPECT(p, buffer->offset_bytes % TSR_PROGRAM_ALIGN_BYTES == 0,
           "offset: expected a multiple of %d, got %" PRIu64, TSR_PROGRAM_ALIGN_BYTES,
           buffer->offset_bytes);
    if (buffer->space != TSR_SPACE_WORKSPACE) capacity = TSR_PROGRAM_VRANK_BYTES_MAX;
    EXPECT(p, buffer->offset_bytes <= capacity && size <= capacity - buffer->offset_bytes,
           "expected %" PRIu64 " byte%s at offset %" PRIu64
           " inside the workspace, got a workspace of %" PRIu64,
           size, TSR_PLURAL(size), buffer->offset_bytes, capacity);
    return TSR_SUCCESS;
}

/* ---- commands ---- */

static TSR_RESULT check_written(const checker *p, const tsr_program_buffer *buffer,
                                uint32_t argument) {
    const tsr_config_entry *entry = &p->config->entries[p->entry];
    EXPECT(p, buffer->space != TSR_SPACE_INPUT,
           "arguments[%u]: expected a buffer that may be written, got input '%s'", argument,
           entry->inputs[buffer->index].name);
    EXPECT(p, buffer->space != TSR_SPACE_PREPACKED,
           "arguments[%u]: expected a buffer that may be written, got prepacked buffer %u",
           argument, buffer->index);
    EXPECT(p,
           buffer->space != TSR_SPACE_VRANK_NUMBER && buffer->space != TSR_SPACE_SUMS &&
               buffer->space != TSR_SPACE_SIZE,
           "arguments[%u]: expected a buffer that may be written, got space %u", argument,
           (unsigned)buffer->space);
    if (buffer->space != TSR_SPACE_TENSOR && buffer->space != TSR_SPACE_PART) return TSR_SUCCESS;
    const tsr_config_tensor *tensor = &p->config->tensors[buffer->index];
    EXPECT(p, entry->kind == TSR_ENTRY_TRAIN && tensor->role != TSR_ROLE_CONSTANT,
           "arguments[%u]: expected a buffer that an entry of kind %s may write, got %s '%s'",
           argument, tsr_entry_kind_name(entry->kind), tsr_tensor_role_name(tensor->role),
           tensor->name);
    p->changed[buffer->index] = true;
    return TSR_SUCCESS;
}

static TSR_RESULT check_read(const checker *p, const tsr_program_buffer *buffer,
                             uint32_t argument) {
    EXPECT(p,
           buffer->space != TSR_SPACE_PREPACKED ||
               p->prepacked[buffer->index].ready_in == p->entry + 1,
           "arguments[%u]: expected a command before that prepares buffer %u, got none", argument,
           buffer->index);
    return TSR_SUCCESS;
}

bool tsr_program_overlap(const tsr_program_buffer *a, const tsr_program_buffer *b) {
    if (a->space != b->space) return false;
    if (!has_offset(a->space)) return a->index == b->index;
    return a->offset_bytes < b->offset_bytes + tsr_program_buffer_size(b) &&
           b->offset_bytes < a->offset_bytes + tsr_program_buffer_size(a);
}

/* Of OFFLOAD and PREFETCH the rest is in program_offloads.c. */
static TSR_RESULT check_copy(const checker *p, const tsr_program_buffer *buffers,
                             const tsr_program_command *command) {
    const char *name = command->opcode == TSR_OP_COPY      ? "copy"
                       : command->opcode == TSR_OP_OFFLOAD ? "offload"
                                                           : "prefetch";
    EXPECT(p, command->argument_count == 2, "%s: expected 2 arguments, got %u", name,
           command->argument_count);
    EXPECT(p, command->kernel == 0 && command->grid == 0 && command->written_from == 0,
           "%s: expected kernel, grid and written_from 0, got %u, %" PRIu64 " and %u", name,
           command->kernel, command->grid, command->written_from);
    const tsr_program_buffer *to = &buffers[command->arguments[0]];
    const tsr_program_buffer *from = &buffers[command->arguments[1]];
    char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
    EXPECT(p, to->dtype == from->dtype && tsr_shape_equal(&to->shape, &from->shape),
           "%s: expected one type, got %s and %s", name,
           tsr_type_format(to->dtype, &to->shape, wanted),
           tsr_type_format(from->dtype, &from->shape, got));
    EXPECT(p, !tsr_program_overlap(to, from),
           "%s: expected buffers apart, got %u and %u that overlap", name, command->arguments[0],
           command->arguments[1]);
    TRY(p->ctx, check_read(p, from, 1));
    return check_written(p, to, 0);
}

static TSR_RESULT check_kernel(const checker *p, const tsr_program_command *command) {
    EXPECT(p, command->kernel < p->program->kernel_count, "kernel: expected less than %u, got %u",
           p->program->kernel_count, command->kernel);
    EXPECT(p, command->grid >= 1 && command->grid <= INT64_MAX,
           "grid: expected 1 ... 2^63 - 1, got %" PRIu64, command->grid);
    return TSR_SUCCESS;
}

static TSR_RESULT check_launch(const checker *p, const tsr_program_buffer *buffers,
                               const tsr_program_command *command) {
    TRY(p->ctx, check_kernel(p, command));
    EXPECT(p, command->written_from < command->argument_count,
           "written_from: expected less than the %u argument%s, got %u", command->argument_count,
           TSR_PLURAL(command->argument_count), command->written_from);
    for (uint32_t i = 0; i < command->written_from; i++)
        TRY(p->ctx, check_read(p, &buffers[command->arguments[i]], i));
    for (uint32_t i = command->written_from; i < command->argument_count; i++)
        TRY(p->ctx, check_written(p, &buffers[command->arguments[i]], i));
    return TSR_SUCCESS;
}

/* One buffer is written by one kernel from one tensor, in whatever entries. */
static TSR_RESULT check_prepare(const checker *p, const tsr_program_buffer *buffers,
                                const tsr_program_command *command) {
    TRY(p->ctx, check_kernel(p, command));
    EXPECT(p, command->argument_count == 2 && command->written_from == 1,
           "prepare: expected 2 arguments, written from 1, got %u, from %u",
           command->argument_count, command->written_from);
    const tsr_program_buffer *from = &buffers[command->arguments[0]];
    const tsr_program_buffer *to = &buffers[command->arguments[1]];
    EXPECT(p, from->space == TSR_SPACE_TENSOR && to->space == TSR_SPACE_PREPACKED,
           "prepare: expected spaces %d and %d, got %u and %u", TSR_SPACE_TENSOR,
           TSR_SPACE_PREPACKED, (unsigned)from->space, (unsigned)to->space);
    prepacked *known = &p->prepacked[to->index];
    if (!known->command) {
        known->command = command;
        known->tensor = from;
    }
    EXPECT(p, known->command->kernel == command->kernel && known->tensor->index == from->index,
           "prepare: expected buffer %u from tensor %u by kernel %u as elsewhere, got %u by %u",
           to->index, known->tensor->index, known->command->kernel, from->index, command->kernel);
    EXPECT(p, known->command->grid == command->grid,
           "prepare: expected grid %" PRIu64 " as elsewhere, got %" PRIu64, known->command->grid,
           command->grid);
    known->ready_in = p->entry + 1;
    return TSR_SUCCESS;
}

void tsr_program_verify_bounds(const tsr_program_command *command, double *out_low,
                               double *out_high) {
    memcpy(out_low, &command->grid, sizeof *out_low);
    memcpy(out_high, &command->cost, sizeof *out_high);
}

static TSR_RESULT check_verify(const checker *p, const tsr_program_buffer *buffers,
                               const tsr_program_command *command) {
    double low, high;
    tsr_program_verify_bounds(command, &low, &high);
    EXPECT(p, command->argument_count == 1 && command->written_from == 1 && command->kernel == 0,
           "verify: expected 1 argument, written_from 1 and kernel 0, got %u, %u and %u",
           command->argument_count, command->written_from, command->kernel);
    EXPECT(p, low <= high, "verify: expected bounds in order, got %g and %g", low, high);
    const tsr_program_buffer *buffer = &buffers[command->arguments[0]];
    EXPECT(p, tsr_dtype_is_float(buffer->dtype), "verify: expected floats, got %s",
           tsr_dtype_name(buffer->dtype));
    return check_read(p, buffer, 0);
}

/* ENTER … AWAIT: the fields of the command; the order is checked in program_regions.c. */
static TSR_RESULT check_ordered(const checker *p, const tsr_program_buffer *buffers,
                                const tsr_program_command *command) {
    const tsr_program_entry *entry = &p->program->entries[p->entry];
    bool transfer = command->opcode == TSR_OP_EXPORT || command->opcode == TSR_OP_IMPORT;
    bool await = command->opcode == TSR_OP_AWAIT, leave = command->opcode == TSR_OP_LEAVE;
    uint32_t limit = await ? entry->command_count : entry->region_count;
    uint32_t half = command->argument_count / 2;
    EXPECT(p, command->kernel < limit, "%s: expected less than %u, got %u",
           await ? "command" : "region", limit, command->kernel);
    EXPECT(p, command->grid == 0, "grid: expected 0, got %" PRIu64, command->grid);
    EXPECT(p, transfer || leave || command->argument_count == 0, "expected no arguments, got %u",
           command->argument_count);
    EXPECT(p, !transfer || command->argument_count % 2 == 0,
           "expected as many targets as values, got %u in all", command->argument_count);
    uint32_t written_from = transfer ? half : command->argument_count;
    EXPECT(p, command->written_from == written_from, "written_from: expected %u, got %u",
           written_from, command->written_from);
    for (uint32_t i = 0; i < command->argument_count; i++)
        TRY(p->ctx, i < written_from ? check_read(p, &buffers[command->arguments[i]], i)
                                     : check_written(p, &buffers[command->arguments[i]], i));
    return TSR_SUCCESS;
}

typedef TSR_RESULT (*check_fn)(const checker *p, const tsr_program_buffer *buffers,
                               const tsr_program_command *command);
static const check_fn checks[] = {
    [TSR_OP_LAUNCH] = check_launch,   [TSR_OP_COPY] = check_copy,
    [TSR_OP_PREPARE] = check_prepare, [TSR_OP_ENTER] = check_ordered,
    [TSR_OP_LEAVE] = check_ordered,   [TSR_OP_EXPORT] = check_ordered,
    [TSR_OP_IMPORT] = check_ordered,  [TSR_OP_AWAIT] = check_ordered,
    [TSR_OP_OFFLOAD] = check_copy,    [TSR_OP_PREFETCH] = check_copy,
    [TSR_OP_VERIFY] = check_verify,
};
static_assert(TSR_COUNT(checks) == TSR_OP_LAST + 1, "one check per opcode");

/* ---- virtual ranks ---- */

/* Only the commands of a loop see these buffers. */
static bool is_of_vrank(const checker *p, const tsr_program_buffer *buffer) {
    const tsr_config_entry *entry = &p->config->entries[p->entry];
    return buffer->space == TSR_SPACE_VRANK || buffer->space == TSR_SPACE_VRANK_NUMBER ||
           buffer->space == TSR_SPACE_PART ||
           (buffer->space == TSR_SPACE_INPUT &&
            tsr_program_splits(p->config, entry, &entry->inputs[buffer->index]));
}

static TSR_RESULT check_loop(const checker *p, const tsr_program_entry *entry,
                             const tsr_program_command *command, uint32_t left) {
    EXPECT(p, left == 0, "each_vrank: expected the end of the loop before, got %u command%s of it",
           left, TSR_PLURAL(left));
    EXPECT(p, has_vranks(p), "each_vrank: expected an entry with virtual ranks, got one without");
    EXPECT(p, command->grid >= 1 && command->grid < entry->command_count - p->index,
           "each_vrank: expected 1 ... %u command%s, got %" PRIu64,
           entry->command_count - p->index - 1, TSR_PLURAL(entry->command_count - p->index - 1),
           command->grid);
    EXPECT(p, command->argument_count == 0 && command->kernel == 0 && command->written_from == 0,
           "each_vrank: expected no arguments, kernel and written_from 0, got %u, %u and %u",
           command->argument_count, command->kernel, command->written_from);
    return TSR_SUCCESS;
}

static TSR_RESULT check_sum(const checker *p, const tsr_program_buffer *buffers,
                            const tsr_program_command *command) {
    EXPECT(p, command->argument_count == 2 && command->written_from == 0,
           "vrank_sum: expected 2 arguments and written_from 0, got %u and %u",
           command->argument_count, command->written_from);
    EXPECT(p, command->kernel < p->program->kernel_count, "kernel: expected less than %u, got %u",
           p->program->kernel_count, command->kernel);
    EXPECT(p, command->grid >= 1 && command->grid <= INT64_MAX,
           "grid: expected 1 ... 2^63 - 1, got %" PRIu64, command->grid);
    const tsr_program_buffer *sum = &buffers[command->arguments[0]];
    const tsr_program_buffer *part = &buffers[command->arguments[1]];
    char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
    EXPECT(p, sum->space == TSR_SPACE_SUMS && part->space != TSR_SPACE_SUMS,
           "vrank_sum: expected a buffer of sums and one of a virtual rank, got spaces %u and %u",
           (unsigned)sum->space, (unsigned)part->space);
    EXPECT(p, sum->dtype == part->dtype && tsr_shape_equal(&sum->shape, &part->shape),
           "vrank_sum: expected one type, got %s and %s",
           tsr_type_format(sum->dtype, &sum->shape, wanted),
           tsr_type_format(part->dtype, &part->shape, got));
    EXPECT(p,
           sum->dtype == TSR_DTYPE_F32 || sum->dtype == TSR_DTYPE_F64 ||
               sum->dtype == TSR_DTYPE_I64,
           "vrank_sum: expected f32, f64 or i64, got %s",
           tsr_type_format(sum->dtype, &sum->shape, got));
    return TSR_SUCCESS;
}

static TSR_RESULT check_gather(const checker *p, const tsr_program_buffer *buffers,
                               const tsr_program_command *command) {
    EXPECT(
        p,
        command->argument_count == 2 && command->written_from == 0 && command->kernel == 0 &&
            command->grid == 0,
        "vrank_gather: expected 2 arguments, kernel, grid and written_from 0, got %u, %u, %" PRIu64
        " and %u",
        command->argument_count, command->kernel, command->grid, command->written_from);
    const tsr_program_buffer *all = &buffers[command->arguments[0]];
    const tsr_program_buffer *part = &buffers[command->arguments[1]];
    uint64_t size = tsr_program_buffer_size(part), sum = 0;
    bool fits = !__builtin_mul_overflow(size, p->config->virtual_ranks, &sum) &&
                sum == tsr_program_buffer_size(all) && all->dtype == part->dtype;
    EXPECT(p, fits && all->space == TSR_SPACE_WORKSPACE && !tsr_program_overlap(all, part),
           "vrank_gather: expected a buffer of %" PRIu64
           " byte%s in the workspace, apart from its part, got %" PRIu64,
           sum, TSR_PLURAL(sum), tsr_program_buffer_size(all));
    return TSR_SUCCESS;
}

/* What is read and written; the rest is in program_control.c. */
static TSR_RESULT check_control(const checker *p, const tsr_program_buffer *buffers,
                                const tsr_program_command *command, uint32_t left) {
    EXPECT(p, left == 0,
           "opcode: expected a launch, sum or gather in a loop over virtual ranks, got %u",
           (unsigned)command->opcode);
    for (uint32_t i = 0; i < command->argument_count; i++)
        TRY(p->ctx, i < 1 && command->written_from == 0
                        ? check_written(p, &buffers[command->arguments[i]], i)
                        : check_read(p, &buffers[command->arguments[i]], i));
    return TSR_SUCCESS;
}

static TSR_RESULT check_kind(const checker *p, const tsr_program_entry *entry,
                             const tsr_program_command *command, uint32_t left) {
    switch ((uint32_t)command->opcode) {
    case TSR_OP_EACH_VRANK:
        return check_loop(p, entry, command, left);
    case TSR_OP_VRANK_SUM:
        EXPECT(p, left > 0,
               "vrank_sum: expected inside of a loop over virtual ranks, got it outside");
        return check_sum(p, entry->buffers, command);
    case TSR_OP_VRANK_GATHER:
        EXPECT(p, left > 0,
               "vrank_gather: expected inside of a loop over virtual ranks, got it outside");
        return check_gather(p, entry->buffers, command);
    case TSR_OP_COLLECTIVE: /* the other rules are in program_collectives.c */
        EXPECT(p, command->argument_count == 2, "collective: expected 2 arguments, got %u",
               command->argument_count);
        bool part = entry->buffers[command->arguments[1]].space == TSR_SPACE_PART;
        EXPECT(p, left == 0 || (part && command->kernel == TSR_COLLECTIVE_ALL_GATHER),
               "collective: expected outside of loops over virtual ranks, or an all_gather of a "
               "tensor's "
               "parts, got it in one");
        EXPECT(p, has_vranks(p) || part,
               "collective: expected an entry with virtual ranks, got one without");
        return check_written(p, &entry->buffers[command->arguments[0]], 0);
    default:
        if (tsr_program_is_control(command->opcode))
            return check_control(p, entry->buffers, command, left);
        EXPECT(p, command->opcode >= TSR_OP_LAUNCH && command->opcode <= TSR_OP_LAST,
               "opcode: expected 1 ... %d or %d ... %d, got %u", TSR_OP_LAST, TSR_OP_EACH_VRANK,
               TSR_OP_CONTROL_LAST, (unsigned)command->opcode);
        EXPECT(p, left == 0 || command->opcode == TSR_OP_LAUNCH,
               "opcode: expected a launch, sum or gather in a loop over virtual ranks, got %u",
               (unsigned)command->opcode);
        return checks[command->opcode](p, entry->buffers, command);
    }
}

/* `left`: commands of the loop at hand, this one among them. */
static TSR_RESULT check_command(const checker *p, const tsr_program_entry *entry,
                                const tsr_program_command *command, uint32_t left, bool *written) {
    EXPECT(p, tsr_text_valid(command->location, TSR_PROGRAM_TEXT_MAX),
           "location: expected at most %d bytes of printable UTF-8, got others",
           TSR_PROGRAM_TEXT_MAX);
    EXPECT(p, command->argument_count <= TSR_PROGRAM_ARGUMENTS_MAX,
           "expected at most %d arguments, got %u", TSR_PROGRAM_ARGUMENTS_MAX,
           command->argument_count);
    for (uint32_t i = 0; i < command->argument_count; i++)
        EXPECT(p, command->arguments[i] < entry->buffer_count,
               "arguments[%u]: expected less than %u, got %u", i, entry->buffer_count,
               command->arguments[i]);
    bool collective = command->opcode == TSR_OP_COLLECTIVE;
    TRY(p->ctx, check_kind(p, entry, command, left));
    for (uint32_t i = 0; i < command->argument_count && left == 0 && !collective; i++)
        EXPECT(p, !is_of_vrank(p, &entry->buffers[command->arguments[i]]),
               "arguments[%u]: expected a buffer seen outside of loops over virtual ranks, got %u",
               i, command->arguments[i]);
    bool sums = command->opcode == TSR_OP_VRANK_SUM; /* to memory of its own, which was checked */
    uint32_t end = sums ? 0 : tsr_program_written_end(command);
    for (uint32_t i = command->written_from; i < end; i++) {
        const tsr_program_buffer *buffer = &entry->buffers[command->arguments[i]];
        EXPECT(
            p,
            left == 0 || buffer->space == TSR_SPACE_WORKSPACE || buffer->space == TSR_SPACE_VRANK ||
                buffer->space == TSR_SPACE_PART,
            "arguments[%u]: expected a buffer of the virtual rank, written in a loop, got space %u",
            i, (unsigned)buffer->space);
        if (buffer->space == TSR_SPACE_OUTPUT) written[buffer->index] = true;
    }
    return TSR_SUCCESS;
}

/* ---- entries ---- */

static TSR_RESULT check_entry_head(const checker *p, const tsr_program_entry *entry) {
    const char *name = p->config->entries[p->entry].name;
    if (!tsr_name_valid(entry->name) || strcmp(entry->name, name) != 0)
        FAIL(p->ctx, p->code, "program: entries[%u]: expected '%s' as in the config, got '%s'",
             p->entry, name, tsr_name_valid(entry->name) ? entry->name : "?");
    if (entry->workspace_bytes % TSR_PROGRAM_ALIGN_BYTES || entry->workspace_bytes > INT64_MAX)
        FAIL(p->ctx, p->code,
             "program: entry '%s': workspace: expected a multiple of %d below 2^63, got %" PRIu64,
             name, TSR_PROGRAM_ALIGN_BYTES, entry->workspace_bytes);
    if (entry->buffer_count > TSR_PROGRAM_BUFFERS_MAX)
        FAIL(p->ctx, p->code, "program: entry '%s': expected at most %d buffers, got %u", name,
             TSR_PROGRAM_BUFFERS_MAX, entry->buffer_count);
    if (entry->command_count > TSR_PROGRAM_COMMANDS_MAX)
        FAIL(p->ctx, p->code, "program: entry '%s': expected at most %d commands, got %u", name,
             TSR_PROGRAM_COMMANDS_MAX, entry->command_count);
    if (entry->region_count > TSR_PROGRAM_REGIONS_MAX)
        FAIL(p->ctx, p->code, "program: entry '%s': expected at most %d regions, got %u", name,
             TSR_PROGRAM_REGIONS_MAX, entry->region_count);
    return TSR_SUCCESS;
}

/* What is prepacked from a tensor would be old behind a command that writes the tensor. */
static TSR_RESULT check_changed(checker *p, const tsr_program_entry *entry) {
    for (p->index = 0; p->index < entry->command_count; p->index++) {
        const tsr_program_command *command = &entry->commands[p->index];
        if (command->opcode != TSR_OP_PREPARE) continue;
        uint32_t tensor = entry->buffers[command->arguments[0]].index;
        EXPECT(p, !p->changed[tensor],
               "prepare: expected a tensor that the entry does not write, got '%s'",
               p->config->tensors[tensor].name);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT check_entry(checker *p, const tsr_program_entry *entry) {
    const tsr_config_entry *declared = &p->config->entries[p->entry];
    bool written[TSR_CONFIG_PORTS_MAX] = {false};
    memset(p->changed, 0, p->config->tensor_count);
    p->what = "buffers";
    for (p->index = 0; p->index < entry->buffer_count; p->index++)
        TRY(p->ctx, check_buffer(p, &entry->buffers[p->index]));
    p->what = "commands";
    uint32_t left = 0;
    for (p->index = 0; p->index < entry->command_count; p->index++) {
        const tsr_program_command *command = &entry->commands[p->index];
        TRY(p->ctx, check_command(p, entry, command, left, written));
        left = command->opcode == TSR_OP_EACH_VRANK ? (uint32_t)command->grid
               : left > 0                           ? left - 1
                                                    : 0;
    }
    TRY(p->ctx, check_changed(p, entry));
    for (size_t i = 0; i < declared->output_count; i++)
        if (!written[i])
            FAIL(p->ctx, p->code,
                 "program: entry '%s': expected a command that writes output '%s', "
                 "got none",
                 entry->name, declared->outputs[i].name);
    return TSR_SUCCESS;
}

tsr_result tsr_program_verify(tsr_ctx *ctx, const tsr_program *program, const tsr_config *config,
                              tsr_code code) {
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, check_kernels(ctx, program, code));
    if (program->entry_count != config->entry_count)
        FAIL(ctx, code, "program: expected %zu entries as in the config, got %u",
             config->entry_count, program->entry_count);
    checker p = {.ctx = ctx, .code = code, .program = program, .config = config};
    for (; p.entry < program->entry_count; p.entry++)
        TRY(ctx, check_entry_head(&p, &program->entries[p.entry]));
    p.prepacked_count = tsr_program_prepacked_count(program);
    p.prepacked = calloc((size_t)p.prepacked_count + 1, sizeof *p.prepacked);
    p.changed = calloc(config->tensor_count + 1, sizeof *p.changed);
    if (!p.prepacked || !p.changed)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to verify a program");
    for (p.entry = 0; p.entry < program->entry_count; p.entry++)
        TRY_GOTO(ctx, result, check_entry(&p, &program->entries[p.entry]));
    TRY_GOTO(ctx, result, tsr_program_verify_regions(ctx, program, config, code));
    TRY_GOTO(ctx, result, tsr_program_verify_collectives(ctx, program, config, code));
    TRY_GOTO(ctx, result, tsr_program_verify_control(ctx, program, code));
    TRY_GOTO(ctx, result, tsr_program_verify_offloads(ctx, program, code));
    TRY_GOTO(ctx, result, tsr_program_verify_sizes(ctx, program, config, code));
done:
    free(p.prepacked);
    free(p.changed);
    return result;
}
