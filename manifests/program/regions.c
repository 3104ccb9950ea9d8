/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifies the regions, exports, handlers and awaited commands of a program: the order that tokens
 * had before they became commands in a list.
 */
#include "manifests/program.h"

#include <stdlib.h>
#include <string.h>

uint32_t tsr_program_written_end(const tsr_program_command *command) {
    switch (command->opcode) {
    case TSR_OP_COPY: /* these write to arguments[0] */
    case TSR_OP_OFFLOAD:
    case TSR_OP_PREFETCH:
    case TSR_OP_VRANK_SUM:
    case TSR_OP_VRANK_GATHER:
    case TSR_OP_COLLECTIVE:
    case TSR_OP_TAKE:
    case TSR_OP_PUT:
        return command->argument_count ? 1 : 0;
    case TSR_OP_EACH_VRANK: /* these control which commands run */
    case TSR_OP_REPEAT:
    case TSR_OP_STOP:
    case TSR_OP_WHEN:
    case TSR_OP_UNLESS:
        return 0;
    default:
        return command->argument_count;
    }
}

/* Commands of loops and branches are in the same list as the others. */
void tsr_program_number_changes(const tsr_program_entry *entry, uint32_t *out_numbers) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        uint32_t end = tsr_program_written_end(command);
        for (uint32_t k = command->written_from; k < end; k++) {
            const tsr_program_buffer *buffer = &entry->buffers[command->arguments[k]];
            bool changes = buffer->space == TSR_SPACE_TENSOR || buffer->space == TSR_SPACE_PART;
            if (changes && !out_numbers[buffer->index]) out_numbers[buffer->index] = ++count;
        }
    }
}

bool tsr_program_is_handler(const tsr_program *program, uint32_t entry) {
    for (uint32_t i = 0; i < program->entry_count; i++) {
        const tsr_program_entry *other = &program->entries[i];
        if (other->on_recovery == entry + 1) return true;
        for (uint32_t k = 0; k < other->region_count; k++)
            if (other->regions[k].on_failure == entry + 1) return true;
    }
    return false;
}

const char *tsr_program_exported(const tsr_program_entry *entry) {
    for (uint32_t i = entry->command_count; i-- > 0;)
        if (entry->commands[i].opcode == TSR_OP_EXPORT)
            return entry->regions[entry->commands[i].kernel].name;
    return "";
}

/* The events of a region so far. */
typedef struct seen {
    bool entered, left, exported;
} seen;

typedef struct walk {
    tsr_ctx *ctx;
    tsr_code code;
    const tsr_program *program;
    const tsr_config *config;
    const tsr_program_entry *entry;
    seen *regions;
    bool *awaited; /* one flag for each command */
    uint32_t open; /* current region, or region_count */
    uint32_t index;
} walk;

#define REFUSE(w, ...)                                                                             \
    do {                                                                                           \
        tsr_result r_ = tsr_fail_((w)->ctx, (w)->code, 0, __FILE__, __LINE__, __VA_ARGS__);        \
        return tsr_error_prefix((w)->ctx, r_, "program: entry '%s': commands[%u]",                 \
                                (w)->entry->name, (w)->index);                                     \
    } while (0)

static TSR_RESULT check_enter(walk *w, uint32_t region) {
    const char *name = w->entry->regions[region].name;
    if (w->open < w->entry->region_count)
        REFUSE(w, "enter: expected region '%s' to be left before '%s' begins, got it open",
               w->entry->regions[w->open].name, name);
    if (w->entry->regions[region].mode == TSR_REGION_IMPORTED || w->regions[region].entered)
        REFUSE(w, "enter: expected region '%s' %s", name,
               w->regions[region].entered ? "once, got it again" : "to be another entry's");
    w->regions[region].entered = true;
    w->open = region;
    return TSR_SUCCESS;
}

static TSR_RESULT check_leave(walk *w, uint32_t region) {
    if (w->open != region)
        REFUSE(w, "leave: expected region '%s' to be open, got %s", w->entry->regions[region].name,
               w->open < w->entry->region_count ? w->entry->regions[w->open].name : "none");
    w->regions[region].left = true;
    w->open = w->entry->region_count;
    return TSR_SUCCESS;
}

/* Arguments come in pairs: one half is read, the other half is written; one half is tensors. */
static TSR_RESULT check_pairs(walk *w, const tsr_program_command *command) {
    uint32_t half = command->argument_count / 2;
    bool export = command->opcode == TSR_OP_EXPORT;
    for (uint32_t i = 0; i < half; i++) {
        const tsr_program_buffer *from = &w->entry->buffers[command->arguments[i]];
        const tsr_program_buffer *to = &w->entry->buffers[command->arguments[half + i]];
        const tsr_program_buffer *tensor = export ? to : from;
        char wanted[TSR_TYPE_TEXT_MAX], got[TSR_TYPE_TEXT_MAX];
        if (from->dtype != to->dtype || !tsr_shape_equal(&from->shape, &to->shape))
            REFUSE(w, "arguments[%u]: expected %s as its tensor has, got %s", i,
                   tsr_type_format(to->dtype, &to->shape, wanted),
                   tsr_type_format(from->dtype, &from->shape, got));
        if (tensor->space != TSR_SPACE_TENSOR || (export && from->space == TSR_SPACE_TENSOR) ||
            (!export && to->space == TSR_SPACE_TENSOR))
            REFUSE(w, "arguments[%u]: expected one of the two in a tensor, got spaces %u and %u", i,
                   (unsigned)from->space, (unsigned)to->space);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT check_transfer(walk *w, const tsr_program_command *command) {
    seen *region = &w->regions[command->kernel];
    const char *name = w->entry->regions[command->kernel].name;
    if (command->opcode == TSR_OP_EXPORT && !region->left)
        REFUSE(w, "export: expected region '%s' to be left before it is exported, got it %s", name,
               region->entered ? "open" : "not begun");
    if (region->exported)
        REFUSE(w, "%s: expected it before the export of region '%s', got it after",
               command->opcode == TSR_OP_EXPORT ? "export" : "import", name);
    if (command->opcode == TSR_OP_EXPORT) region->exported = true;
    return check_pairs(w, command);
}

static bool begins(const tsr_program_command *command) {
    return command->opcode == TSR_OP_EXPORT || command->opcode == TSR_OP_IMPORT ||
           tsr_program_is_offload(command);
}

static TSR_RESULT check_await(walk *w, uint32_t target) {
    if (target >= w->index || !begins(&w->entry->commands[target]))
        REFUSE(w,
               "await: expected an export, import, offload or prefetch before it, got command %u",
               target);
    if (w->awaited[target]) REFUSE(w, "await: expected command %u once, got it again", target);
    w->awaited[target] = true;
    return TSR_SUCCESS;
}

static bool writes_tensor(const walk *w, const tsr_program_command *command) {
    uint32_t end = tsr_program_written_end(command);
    if (command->opcode == TSR_OP_AWAIT || command->opcode == TSR_OP_EXPORT) return false;
    for (uint32_t i = command->written_from; i < end; i++) {
        tsr_space space = w->entry->buffers[command->arguments[i]].space;
        if (space == TSR_SPACE_TENSOR || space == TSR_SPACE_PART) return true;
    }
    return false;
}

static TSR_RESULT check_command(walk *w, const tsr_program_command *command, bool *changed) {
    switch (command->opcode) {
    case TSR_OP_ENTER:
        if (*changed)
            REFUSE(w, "enter: expected a region before tensors are written, got one after");
        return check_enter(w, command->kernel);
    case TSR_OP_LEAVE:
        return check_leave(w, command->kernel);
    case TSR_OP_EXPORT:
    case TSR_OP_IMPORT:
        return check_transfer(w, command);
    case TSR_OP_AWAIT:
        return check_await(w, command->kernel);
    default:
        *changed = *changed || writes_tensor(w, command);
        if (*changed && w->open < w->entry->region_count)
            REFUSE(w, "expected no tensor to be written in region '%s', got one",
                   w->entry->regions[w->open].name);
        return TSR_SUCCESS;
    }
}

static TSR_RESULT check_commands(walk *w) {
    const tsr_program_entry *entry = w->entry;
    bool changed = false;
    for (w->index = 0; w->index < entry->command_count; w->index++)
        TRY(w->ctx, check_command(w, &entry->commands[w->index], &changed));
    if (w->open < entry->region_count)
        FAIL(w->ctx, w->code, "program: entry '%s': expected region '%s' to be left, got it open",
             entry->name, entry->regions[w->open].name);
    for (w->index = 0; w->index < entry->command_count; w->index++) {
        tsr_opcode opcode = entry->commands[w->index].opcode;
        bool must = begins(&entry->commands[w->index]) && opcode != TSR_OP_IMPORT;
        if (must && !w->awaited[w->index])
            REFUSE(w, "%s: expected an await of this command, got none",
                   opcode == TSR_OP_EXPORT    ? "export"
                   : opcode == TSR_OP_OFFLOAD ? "offload"
                                              : "prefetch");
    }
    return TSR_SUCCESS;
}

static TSR_RESULT check_handler(const walk *w, const char *event, uint32_t handler) {
    if (handler == 0) return TSR_SUCCESS;
    if (handler > w->program->entry_count)
        FAIL(w->ctx, w->code, "program: entry '%s': %s: expected 0 ... %u, got %u", w->entry->name,
             event, w->program->entry_count, handler);
    const tsr_config_entry *entry = &w->config->entries[handler - 1];
    bool takes = false;
    for (size_t i = 0; i < entry->input_count; i++)
        takes = takes || !tsr_port_is_filled(entry->inputs[i].source);
    if (takes || entry->output_count || entry->kind != TSR_ENTRY_TRAIN ||
        w->program->entries[handler - 1].region_count)
        FAIL(w->ctx, w->code,
             "program: entry '%s': %s: expected an entry of kind train without inputs, outputs and "
             "regions, got '%s'",
             w->entry->name, event, entry->name);
    return TSR_SUCCESS;
}

static TSR_RESULT check_regions(const walk *w) {
    const tsr_program_entry *entry = w->entry;
    for (uint32_t i = 0; i < entry->region_count; i++) {
        const tsr_program_region *region = &entry->regions[i];
        if (!tsr_name_valid(region->name) || region->mode > TSR_REGION_RESTART)
            FAIL(w->ctx, w->code,
                 "program: entry '%s': regions[%u]: expected a name and a mode of 0 ... %d, got "
                 "mode %u",
                 entry->name, i, TSR_REGION_RESTART, (unsigned)region->mode);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(entry->regions[k].name, region->name) == 0)
                FAIL(w->ctx, w->code,
                     "program: entry '%s': regions[%u]: expected a new name, got '%s' again",
                     entry->name, i, region->name);
        TRY(w->ctx, check_handler(w, region->name, region->on_failure));
    }
    return check_handler(w, "on_recovery", entry->on_recovery);
}

tsr_result tsr_program_verify_regions(tsr_ctx *ctx, const tsr_program *program,
                                      const tsr_config *config, tsr_code code) {
    tsr_result result = TSR_SUCCESS;
    for (uint32_t i = 0; i < program->entry_count && !result.code; i++) {
        const tsr_program_entry *entry = &program->entries[i];
        walk w = {.ctx = ctx,
                  .code = code,
                  .program = program,
                  .config = config,
                  .entry = entry,
                  .regions = calloc((size_t)entry->region_count + 1, sizeof *w.regions),
                  .awaited = calloc((size_t)entry->command_count + 1, sizeof *w.awaited),
                  .open = entry->region_count};
        if (!w.regions || !w.awaited)
            result =
                tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory to verify a program");
        if (!result.code) result = check_regions(&w);
        if (!result.code) result = check_commands(&w);
        free(w.regions);
        free(w.awaited);
    }
    return result;
}
