/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifies the loops and branches of a program: ranges of commands are properly nested, conditions
 * are scalars, slices match their sequences, and no command in a range writes a value that outlives
 * the run. The rules of outputs and tensors are therefore satisfied for any number of iterations.
 */
#include "manifests/program.h"
#include "runtime/base/plural.h"

#include <inttypes.h>

typedef struct range {
    const tsr_program_command *command; /* REPEAT, WHEN or UNLESS */
    uint32_t end;                       /* index of the first command after the range */
} range;

typedef struct walk {
    tsr_ctx *ctx;
    tsr_code code;
    const tsr_program_entry *entry;
    uint32_t index; /* index of the command */
    range ranges[TSR_PROGRAM_DEPTH_MAX];
    uint32_t depth;
} walk;

#define EXPECT TSR_PROGRAM_EXPECT

bool tsr_program_is_control(tsr_opcode opcode) {
    return opcode >= TSR_OP_REPEAT && opcode <= TSR_OP_CONTROL_LAST;
}

bool tsr_program_has_control(const tsr_program_entry *entry) {
    for (uint32_t i = 0; i < entry->command_count; i++)
        if (tsr_program_is_control(entry->commands[i].opcode)) return true;
    return false;
}

static TSR_RESULT check_fields(const walk *w, const tsr_program_command *c, const char *name,
                               uint32_t arguments, uint32_t written_from) {
    EXPECT(w, c->argument_count == arguments && c->written_from == written_from,
           "%s: expected %u argument%s and written_from %u, got %u and %u", name, arguments,
           TSR_PLURAL(arguments), written_from, c->argument_count, c->written_from);
    return TSR_SUCCESS;
}

static TSR_RESULT enter_range(walk *w, const tsr_program_command *c, const char *name) {
    uint32_t end = w->depth ? w->ranges[w->depth - 1].end : w->entry->command_count;
    uint32_t capacity = end - w->index - 1;
    EXPECT(w, c->kernel >= 1 && c->kernel <= capacity, "%s: expected 1 ... %u command%s, got %u",
           name, capacity, TSR_PLURAL(capacity), c->kernel);
    EXPECT(w, w->depth < TSR_PROGRAM_DEPTH_MAX,
           "%s: expected at most %d ranges in each other, got one more", name,
           TSR_PROGRAM_DEPTH_MAX);
    w->ranges[w->depth++] = (range){c, w->index + 1 + c->kernel};
    return TSR_SUCCESS;
}

/* Finds the innermost enclosing range, which must be a loop. */
static TSR_RESULT find_loop(const walk *w, const char *name,
                            const tsr_program_command **out_repeat) {
    const tsr_program_command *of = w->depth ? w->ranges[w->depth - 1].command : NULL;
    EXPECT(w, of && of->opcode == TSR_OP_REPEAT, "%s: expected in a loop, got it %s", name,
           of ? "in a branch" : "outside of one");
    *out_repeat = of;
    return TSR_SUCCESS;
}

static TSR_RESULT check_condition(const walk *w, const tsr_program_command *c, const char *name) {
    char text[TSR_TYPE_TEXT_MAX];
    TRY(w->ctx, check_fields(w, c, name, 1, 1));
    const tsr_program_buffer *condition = &w->entry->buffers[c->arguments[0]];
    EXPECT(w, c->grid == 0, "%s: expected grid 0, got %" PRIu64, name, c->grid);
    EXPECT(w, condition->dtype == TSR_DTYPE_I1 && condition->shape.rank == 0,
           "%s: expected a scalar i1, got %s", name,
           tsr_type_format(condition->dtype, &condition->shape, text));
    return TSR_SUCCESS;
}

static TSR_RESULT check_repeat(walk *w, const tsr_program_command *c) {
    TRY(w->ctx, check_fields(w, c, "repeat", 0, 0));
    EXPECT(w, c->grid >= 1 && c->grid <= TSR_PROGRAM_TIMES_MAX,
           "repeat: expected 1 ... %" PRIu64 " times, got %" PRIu64, TSR_PROGRAM_TIMES_MAX,
           c->grid);
    return enter_range(w, c, "repeat");
}

static TSR_RESULT check_branch(walk *w, const tsr_program_command *c) {
    const char *name = c->opcode == TSR_OP_WHEN ? "when" : "unless";
    TRY(w->ctx, check_condition(w, c, name));
    return enter_range(w, c, name);
}

static TSR_RESULT check_stop(walk *w, const tsr_program_command *c) {
    const tsr_program_command *of = NULL;
    TRY(w->ctx, find_loop(w, "stop", &of));
    EXPECT(w, c->kernel == 0, "stop: expected kernel 0, got %u", c->kernel);
    return check_condition(w, c, "stop");
}

static TSR_RESULT check_slice(walk *w, const tsr_program_command *c) {
    bool takes = c->opcode == TSR_OP_TAKE;
    const char *name = takes ? "take" : "put";
    const tsr_program_command *of = NULL;
    char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
    TRY(w->ctx, find_loop(w, name, &of));
    TRY(w->ctx, check_fields(w, c, name, 2, 0));
    EXPECT(w, c->kernel <= 1 && c->grid == 0,
           "%s: expected direction 0 or 1 and grid 0, got %u and %" PRIu64, name, c->kernel,
           c->grid);
    const tsr_program_buffer *to = &w->entry->buffers[c->arguments[0]];
    const tsr_program_buffer *from = &w->entry->buffers[c->arguments[1]];
    const tsr_program_buffer *whole = takes ? from : to, *slice = takes ? to : from;
    tsr_shape shape = {.rank = slice->shape.rank + 1, .dims = {of->grid}};
    EXPECT(w, shape.rank <= TSR_RANK_MAX, "%s: expected a slice of less than %d dims, got %u", name,
           TSR_RANK_MAX, slice->shape.rank);
    for (uint32_t d = 1; d < shape.rank; d++) shape.dims[d] = slice->shape.dims[d - 1];
    EXPECT(w, whole->dtype == slice->dtype && tsr_shape_equal(&whole->shape, &shape),
           "%s: expected a sequence of type %s for this loop, got %s", name,
           tsr_type_format(slice->dtype, &shape, wanted),
           tsr_type_format(whole->dtype, &whole->shape, got));
    EXPECT(w, !tsr_program_overlap(to, from),
           "%s: expected buffers apart, got %u and %u that overlap", name, c->arguments[0],
           c->arguments[1]);
    return TSR_SUCCESS;
}

static bool is_plain(tsr_opcode opcode) {
    return opcode == TSR_OP_LAUNCH || opcode == TSR_OP_COPY || opcode == TSR_OP_PREPARE ||
           opcode == TSR_OP_VERIFY || tsr_program_is_control(opcode);
}

static TSR_RESULT check_writes(const walk *w, const tsr_program_command *c) {
    uint32_t end = tsr_program_written_end(c);
    for (uint32_t i = c->written_from; i < end && c->opcode != TSR_OP_PREPARE; i++)
        EXPECT(
            w, w->entry->buffers[c->arguments[i]].space == TSR_SPACE_WORKSPACE,
            "arguments[%u]: expected a buffer in the workspace, written in a loop or branch, got "
            "space %u",
            i, (unsigned)w->entry->buffers[c->arguments[i]].space);
    return TSR_SUCCESS;
}

static TSR_RESULT check_entry(walk *w) {
    for (w->index = 0; w->index < w->entry->command_count; w->index++) {
        const tsr_program_command *c = &w->entry->commands[w->index];
        while (w->depth && w->ranges[w->depth - 1].end == w->index) w->depth--;
        EXPECT(w, is_plain(c->opcode),
               "opcode: expected a launch, copy, prepare or one of loops and branches in an entry "
               "that has these, got %u",
               (unsigned)c->opcode);
        if (w->depth) TRY(w->ctx, check_writes(w, c));
        if (c->opcode == TSR_OP_REPEAT) TRY(w->ctx, check_repeat(w, c));
        if (c->opcode == TSR_OP_STOP) TRY(w->ctx, check_stop(w, c));
        if (c->opcode == TSR_OP_WHEN || c->opcode == TSR_OP_UNLESS) TRY(w->ctx, check_branch(w, c));
        if (c->opcode == TSR_OP_TAKE || c->opcode == TSR_OP_PUT) TRY(w->ctx, check_slice(w, c));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_program_verify_control(tsr_ctx *ctx, const tsr_program *program, tsr_code code) {
    for (uint32_t i = 0; i < program->entry_count; i++) {
        walk w = {.ctx = ctx, .code = code, .entry = &program->entries[i]};
        if (tsr_program_has_control(w.entry)) TRY(ctx, check_entry(&w));
    }
    return TSR_SUCCESS;
}
