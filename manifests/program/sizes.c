/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of an entry with an open dim: computed for one call, and verified for all. The verifier
 * computes with ranges: from the range of the dim follows one for each size, and what a size
 * replaces must hold the end of its range.
 */
#include "manifests/program.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct {
    const char *name;
    uint32_t operands;
} kinds[] = {
#define X(ID, number, name, operands) [TSR_SIZE_##ID] = {name, operands},
#include "manifests/program/sizes.def"
#undef X
};

const char *tsr_size_kind_name(tsr_size_kind kind) {
    return (size_t)kind < TSR_COUNT(kinds) ? kinds[kind].name : NULL;
}

uint32_t tsr_size_kind_operands(tsr_size_kind kind) {
    return (size_t)kind < TSR_COUNT(kinds) ? kinds[kind].operands : 0;
}

/* ---- for one call ---------------------------------------------------------------------------- */

/* False if the result does not exist. */
static bool compute(tsr_size_kind kind, uint64_t a, uint64_t b, uint64_t *out) {
    bool fits = true;
    switch (kind) {
    case TSR_SIZE_ADD:
        fits = !__builtin_add_overflow(a, b, out);
        break;
    case TSR_SIZE_SUBTRACT:
        fits = !__builtin_sub_overflow(a, b, out);
        break;
    case TSR_SIZE_MULTIPLY:
        fits = !__builtin_mul_overflow(a, b, out);
        break;
    case TSR_SIZE_DIVIDE:
    case TSR_SIZE_DIVIDE_UP:
        if (b == 0) return false;
        *out = a / b + (kind == TSR_SIZE_DIVIDE_UP && a % b != 0);
        break;
    case TSR_SIZE_MIN:
        *out = a < b ? a : b;
        break;
    case TSR_SIZE_MAX:
        *out = a > b ? a : b;
        break;
    case TSR_SIZE_DIM:
    case TSR_SIZE_CONSTANT:
        return false;
    }
    return fits && *out <= INT64_MAX;
}

void tsr_program_sizes(const tsr_program_size *sizes, uint32_t count, uint64_t dim,
                       uint64_t *out_sizes) {
    for (uint32_t i = 0; i < count; i++) {
        const tsr_program_size *s = &sizes[i];
        if (s->kind == TSR_SIZE_DIM) {
            out_sizes[i] = dim;
        } else if (s->kind == TSR_SIZE_CONSTANT) {
            out_sizes[i] = s->number;
        } else {
            bool exists = compute(s->kind, out_sizes[s->a], out_sizes[s->b], &out_sizes[i]);
            TSR_ASSERT(exists); /* tsr_program_verify ensures it */
        }
    }
}

/* ---- for all calls --------------------------------------------------------------------------- */

typedef struct range {
    uint64_t low, high;
} range;

typedef struct checker {
    tsr_ctx *ctx;
    tsr_code code;
    const tsr_config_entry *declared;
    const tsr_program_entry *entry;
    range *ranges;    /* one per size */
    const char *what; /* "sizes", "buffers", "commands" */
    uint32_t index;
} checker;

#define EXPECT(p, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            tsr_result r_ = tsr_fail_((p)->ctx, (p)->code, 0, __FILE__, __LINE__, __VA_ARGS__);    \
            return tsr_error_prefix((p)->ctx, r_, "program: entry '%s': %s[%u]",                   \
                                    (p)->declared->name, (p)->what, (p)->index);                   \
        }                                                                                          \
    } while (0)

/* The operands at which the result is smallest and largest. */
static bool find_range(const tsr_program_size *s, range a, range b, range *out) {
    bool falls = s->kind == TSR_SIZE_SUBTRACT || s->kind == TSR_SIZE_DIVIDE ||
                 s->kind == TSR_SIZE_DIVIDE_UP; /* as b grows */
    return compute(s->kind, a.low, falls ? b.high : b.low, &out->low) &&
           compute(s->kind, a.high, falls ? b.low : b.high, &out->high);
}

static TSR_RESULT check_size(const checker *p, const tsr_program_size *s) {
    range *out = &p->ranges[p->index];
    bool is_number = s->kind == TSR_SIZE_CONSTANT;
    EXPECT(p, tsr_size_kind_name(s->kind), "kind: expected 1 ... %d, got %u",
           (int)TSR_COUNT(kinds) - 1, (unsigned)s->kind);
    EXPECT(p, s->number <= (is_number ? INT64_MAX : 0), "number: expected at most %s, got %" PRIu64,
           is_number ? "2^63 - 1" : "0", s->number);
    *out = is_number ? (range){s->number, s->number}
                     : (range){p->declared->open.low, p->declared->open.high};
    if (!tsr_size_kind_operands(s->kind)) {
        EXPECT(p, s->a == 0 && s->b == 0, "expected no operands, got %u and %u", s->a, s->b);
        return TSR_SUCCESS;
    }
    EXPECT(p, s->a < p->index && s->b < p->index, "expected operands before size %u, got %u and %u",
           p->index, s->a, s->b);
    range a = p->ranges[s->a], b = p->ranges[s->b];
    EXPECT(p, find_range(s, a, b, out),
           "expected 0 ... 2^63 - 1 for every dim, got %s of %" PRIu64 " ... %" PRIu64
           " and %" PRIu64 " ... %" PRIu64,
           tsr_size_kind_name(s->kind), a.low, a.high, b.low, b.high);
    return TSR_SUCCESS;
}

/* Checks that a size may replace a number. */
static TSR_RESULT check_use(const checker *p, const char *what, uint32_t size, uint64_t least,
                            uint64_t most) {
    if (!size) return TSR_SUCCESS;
    EXPECT(p, size <= p->entry->size_count, "%s: expected one of %u sizes, got number %u", what,
           p->entry->size_count, size - 1);
    range of = p->ranges[size - 1];
    EXPECT(p, of.low >= least && of.high <= most,
           "%s: expected %" PRIu64 " ... %" PRIu64 " for every dim, got %" PRIu64 " ... %" PRIu64,
           what, least, most, of.low, of.high);
    return TSR_SUCCESS;
}

/* True if the size is `times` times the dim. */
static bool is_multiple(const tsr_program_entry *entry, uint32_t size, uint64_t times) {
    const tsr_program_size *s = &entry->sizes[size];
    if (s->kind == TSR_SIZE_DIM) return times == 1;
    return s->kind == TSR_SIZE_MULTIPLY && entry->sizes[s->a].kind == TSR_SIZE_DIM &&
           entry->sizes[s->b].kind == TSR_SIZE_CONSTANT && entry->sizes[s->b].number == times;
}

static TSR_RESULT check_buffer(const checker *p, const tsr_program_buffer *buffer) {
    char text[TSR_TYPE_TEXT_MAX];
    bool is_port = buffer->space == TSR_SPACE_INPUT || buffer->space == TSR_SPACE_OUTPUT;
    if (buffer->space == TSR_SPACE_SIZE)
        EXPECT(p,
               buffer->index < p->entry->size_count && buffer->dtype == TSR_DTYPE_I64 &&
                   buffer->shape.rank == 0 && buffer->offset_bytes == 0 && buffer->rows == 0,
               "expected a scalar i64, one of %u sizes, got %s of size %u", p->entry->size_count,
               tsr_type_format(buffer->dtype, &buffer->shape, text), buffer->index);
    EXPECT(p,
           !buffer->rows ||
               ((is_port || buffer->space == TSR_SPACE_WORKSPACE) && buffer->shape.rank),
           "rows: expected 0 for %s in space %u, got %u",
           tsr_type_format(buffer->dtype, &buffer->shape, text), (unsigned)buffer->space,
           buffer->rows);
    TRY(p->ctx, check_use(p, "rows", buffer->rows, 0, buffer->rows ? buffer->shape.dims[0] : 0));
    if (!is_port) return TSR_SUCCESS;
    const tsr_config_port *port = buffer->space == TSR_SPACE_INPUT
                                      ? &p->declared->inputs[buffer->index]
                                      : &p->declared->outputs[buffer->index];
    EXPECT(p,
           !port->dim_times == !buffer->rows &&
               (!buffer->rows || is_multiple(p->entry, buffer->rows - 1, port->dim_times)),
           "rows: expected %" PRIu64 " times the dim as '%s' has, got size %u", port->dim_times,
           port->name, buffer->rows);
    return TSR_SUCCESS;
}

static TSR_RESULT check_command(const checker *p, const tsr_program_command *command) {
    const tsr_program_buffer *buffers = p->entry->buffers;
    bool copies = command->opcode == TSR_OP_COPY, runs = command->opcode == TSR_OP_LAUNCH;
    EXPECT(p,
           copies || runs || command->opcode == TSR_OP_PREPARE ||
               command->opcode == TSR_OP_VERIFY || !p->entry->size_count,
           "opcode: expected a launch, copy or prepare in an entry with an open dim, got %u",
           (unsigned)command->opcode);
    EXPECT(p, runs || (command->grid_size == 0 && command->cost_size == 0),
           "expected no sizes of grid and cost, got %u and %u", command->grid_size,
           command->cost_size);
    if (copies)
        EXPECT(p, buffers[command->arguments[0]].rows == buffers[command->arguments[1]].rows,
               "copy: expected one size of the rows, got %u and %u",
               buffers[command->arguments[0]].rows, buffers[command->arguments[1]].rows);
    for (uint32_t i = 0; command->opcode == TSR_OP_PREPARE && i < command->argument_count; i++)
        EXPECT(p, buffers[command->arguments[i]].space != TSR_SPACE_SIZE,
               "prepare: expected no size, got buffer %u", command->arguments[i]);
    TRY(p->ctx, check_use(p, "grid", command->grid_size, 1, command->grid));
    return check_use(p, "cost", command->cost_size, 0, command->cost);
}

static TSR_RESULT check_entry(checker *p) {
    const tsr_program_entry *entry = p->entry;
    p->what = "sizes";
    for (p->index = 0; p->index < entry->size_count; p->index++)
        TRY(p->ctx, check_size(p, &entry->sizes[p->index]));
    p->what = "buffers";
    for (p->index = 0; p->index < entry->buffer_count; p->index++)
        TRY(p->ctx, check_buffer(p, &entry->buffers[p->index]));
    p->what = "commands";
    for (p->index = 0; p->index < entry->command_count; p->index++)
        TRY(p->ctx, check_command(p, &entry->commands[p->index]));
    return TSR_SUCCESS;
}

tsr_result tsr_program_verify_sizes(tsr_ctx *ctx, const tsr_program *program,
                                    const tsr_config *config, tsr_code code) {
    tsr_result result = TSR_SUCCESS;
    range *ranges = calloc(TSR_PROGRAM_SIZES_MAX, sizeof *ranges);
    if (!ranges) FAIL(ctx, TSR_MEMORY, "no memory to verify a program");
    for (uint32_t i = 0; i < program->entry_count; i++) {
        const tsr_program_entry *entry = &program->entries[i];
        const tsr_config_entry *declared = &config->entries[i];
        if (entry->size_count > TSR_PROGRAM_SIZES_MAX || !entry->size_count != !declared->open.name)
            FAIL_GOTO(ctx, result, code, "program: entry '%s': sizes: expected %s, got %u",
                      declared->name, declared->open.name ? "1 ... 4096" : "none",
                      entry->size_count);
        checker p = {
            .ctx = ctx, .code = code, .declared = declared, .entry = entry, .ranges = ranges};
        TRY_GOTO(ctx, result, check_entry(&p));
    }
done:
    free(ranges);
    return result;
}
