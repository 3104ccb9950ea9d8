/* SPDX-License-Identifier: Apache-2.0
 *
 * The listing, for example:
 *
 *     program: 2 kernels, 1 entry
 *     entry @predict (infer, batch 64): workspace 32768 bytes
 *       %0 = param layer1.weight : 64x128xf32
 *       %3 = workspace +0 "m1" : 64x128xf32
 *       0: launch @k0 grid 8 cost 1048576 read %0, %1 write %3    digits.mlir:24:11
 */
#include "manifests/program.h"
#include "runtime/base/plural.h"

#include <inttypes.h>

static void format_buffer(const tsr_program_buffer *buffer, const tsr_config *config,
                          const tsr_config_entry *entry, tsr_buffer *out) {
    char text[TSR_TYPE_TEXT_MAX];
    switch (buffer->space) {
    case TSR_SPACE_TENSOR:
        tsr_buffer_printf(out, "%s %s", tsr_tensor_role_name(config->tensors[buffer->index].role),
                          config->tensors[buffer->index].name);
        break;
    case TSR_SPACE_INPUT:
        tsr_buffer_printf(out, "input %s", entry->inputs[buffer->index].name);
        break;
    case TSR_SPACE_OUTPUT:
        tsr_buffer_printf(out, "output %s", entry->outputs[buffer->index].name);
        break;
    case TSR_SPACE_PREPACKED:
        tsr_buffer_printf(out, "prepacked %u", buffer->index);
        break;
    case TSR_SPACE_WORKSPACE:
        tsr_buffer_printf(out, "workspace +%" PRIu64, buffer->offset_bytes);
        break;
    case TSR_SPACE_HOST:
        tsr_buffer_printf(out, "host +%" PRIu64, buffer->offset_bytes);
        break;
    case TSR_SPACE_SIZE:
        tsr_buffer_printf(out, "size %u", buffer->index);
        break;
    case TSR_SPACE_VRANK:
        tsr_buffer_printf(out, "virtual rank +%" PRIu64, buffer->offset_bytes);
        break;
    case TSR_SPACE_SUMS:
        tsr_buffer_printf(out, "sums +%" PRIu64, buffer->offset_bytes);
        break;
    case TSR_SPACE_PART:
        tsr_buffer_printf(out, "part of %s", config->tensors[buffer->index].name);
        break;
    case TSR_SPACE_VRANK_NUMBER:
        tsr_buffer_text(out, "virtual rank number");
        break;
    }
    if (buffer->name[0]) tsr_buffer_printf(out, " \"%s\"", buffer->name);
    tsr_buffer_printf(out, " : %s", tsr_type_format(buffer->dtype, &buffer->shape, text));
    if (buffer->rows) tsr_buffer_printf(out, " rows #%u", buffer->rows - 1);
    tsr_buffer_text(out, "\n");
}

static void format_arguments(const char *word, const tsr_program_command *command, uint32_t begin,
                             uint32_t end, tsr_buffer *out) {
    for (uint32_t i = begin; i < end; i++) {
        tsr_buffer_text(out, i == begin ? word : ",");
        tsr_buffer_printf(out, " %%%u", command->arguments[i]);
    }
}

static bool format_vrank_command(const tsr_program_command *command, const tsr_program *program,
                                 tsr_buffer *out) {
    switch (command->opcode) {
    case TSR_OP_EACH_VRANK:
        tsr_buffer_printf(out, "for each virtual rank: the next %" PRIu64, command->grid);
        return true;
    case TSR_OP_VRANK_SUM:
        tsr_buffer_printf(out, "sum over virtual ranks by @%s grid %" PRIu64 ": %%%u <- %%%u",
                          program->kernels[command->kernel], command->grid, command->arguments[0],
                          command->arguments[1]);
        return true;
    case TSR_OP_VRANK_GATHER:
        tsr_buffer_printf(out, "gather from virtual ranks: %%%u <- %%%u", command->arguments[0],
                          command->arguments[1]);
        return true;
    case TSR_OP_COLLECTIVE:
        tsr_buffer_printf(out, "%s among virtual ranks: %%%u <- %%%u",
                          tsr_collective_get(command->kernel)->name, command->arguments[0],
                          command->arguments[1]);
        return true;
    default:
        return false;
    }
}

static bool format_control(const tsr_program_command *command, tsr_buffer *out) {
    const char *from_end = command->kernel ? ", from the last on" : "";
    switch (command->opcode) {
    case TSR_OP_REPEAT:
        tsr_buffer_printf(out, "repeat %" PRIu64 " time%s: the next %u", command->grid,
                          TSR_PLURAL(command->grid), command->kernel);
        return true;
    case TSR_OP_STOP:
        tsr_buffer_printf(out, "stop unless %%%u", command->arguments[0]);
        return true;
    case TSR_OP_WHEN:
    case TSR_OP_UNLESS:
        tsr_buffer_printf(out, "%s %%%u: the next %u",
                          command->opcode == TSR_OP_WHEN ? "when" : "unless", command->arguments[0],
                          command->kernel);
        return true;
    case TSR_OP_TAKE:
        tsr_buffer_printf(out, "take %%%u <- slice of %%%u%s", command->arguments[0],
                          command->arguments[1], from_end);
        return true;
    case TSR_OP_PUT:
        tsr_buffer_printf(out, "put slice of %%%u <- %%%u%s", command->arguments[0],
                          command->arguments[1], from_end);
        return true;
    default:
        return false;
    }
}

static bool format_ordered(const tsr_program_command *command, const tsr_program_entry *entry,
                           tsr_buffer *out) {
    static const char *const words[] = {[TSR_OP_ENTER] = "enter",
                                        [TSR_OP_LEAVE] = "leave",
                                        [TSR_OP_EXPORT] = "export",
                                        [TSR_OP_IMPORT] = "import"};
    if (command->opcode < TSR_OP_ENTER || command->opcode > TSR_OP_AWAIT) return false;
    if (command->opcode == TSR_OP_AWAIT)
        tsr_buffer_printf(out, "await %u", command->kernel);
    else
        tsr_buffer_printf(out, "%s \"%s\"", words[command->opcode],
                          entry->regions[command->kernel].name);
    format_arguments(command->opcode == TSR_OP_LEAVE ? " checks" : " read", command, 0,
                     command->written_from, out);
    format_arguments(" write", command, command->written_from, command->argument_count, out);
    return true;
}

static void format_regions(const tsr_program_entry *entry, const tsr_config *config,
                           tsr_buffer *out) {
    static const char *const modes[] = {"imported", "replay", "restart"};
    for (uint32_t i = 0; i < entry->region_count; i++) {
        const tsr_program_region *region = &entry->regions[i];
        tsr_buffer_printf(out, "  region \"%s\" %s", region->name, modes[region->mode]);
        if (region->on_failure)
            tsr_buffer_printf(out, " on_failure @%s", config->entries[region->on_failure - 1].name);
        tsr_buffer_text(out, "\n");
    }
    if (entry->on_recovery)
        tsr_buffer_printf(out, "  on_recovery @%s\n", config->entries[entry->on_recovery - 1].name);
}

/* "#2 = multiply #0, #1" */
static void format_sizes(const tsr_program_entry *entry, const tsr_open_dim *dim, tsr_buffer *out) {
    for (uint32_t i = 0; i < entry->size_count; i++) {
        const tsr_program_size *size = &entry->sizes[i];
        tsr_buffer_printf(out, "  #%u = ", i);
        if (size->kind == TSR_SIZE_DIM)
            tsr_buffer_printf(out, "%s, %" PRIu64 " to %" PRIu64 "\n", dim->name, dim->low,
                              dim->high);
        else if (size->kind == TSR_SIZE_CONSTANT)
            tsr_buffer_printf(out, "%" PRIu64 "\n", size->number);
        else
            tsr_buffer_printf(out, "%s #%u, #%u\n", tsr_size_kind_name(size->kind), size->a,
                              size->b);
    }
}

static void format_command(const tsr_program_command *command, const tsr_program *program,
                           const tsr_program_entry *entry, tsr_buffer *out) {
    const char *copy = command->opcode == TSR_OP_COPY       ? "copy"
                       : command->opcode == TSR_OP_OFFLOAD  ? "offload"
                       : command->opcode == TSR_OP_PREFETCH ? "prefetch"
                                                            : NULL;
    if (command->opcode == TSR_OP_VERIFY) {
        double low, high;
        tsr_program_verify_bounds(command, &low, &high);
        tsr_buffer_printf(out, "verify %%%u between %.9g and %.9g", command->arguments[0], low,
                          high);
    } else if (format_ordered(command, entry, out)) {
    } else if (copy) {
        tsr_buffer_printf(out, "%s %%%u <- %%%u", copy, command->arguments[0],
                          command->arguments[1]);
    } else if (!format_vrank_command(command, program, out) && !format_control(command, out)) {
        tsr_buffer_printf(out, "%s @%s grid %" PRIu64,
                          command->opcode == TSR_OP_PREPARE ? "prepare" : "launch",
                          program->kernels[command->kernel], command->grid);
        if (command->grid_size) tsr_buffer_printf(out, " (#%u)", command->grid_size - 1);
        if (command->cost) tsr_buffer_printf(out, " cost %" PRIu64, command->cost);
        if (command->cost_size) tsr_buffer_printf(out, " (#%u)", command->cost_size - 1);
        format_arguments(" read", command, 0, command->written_from, out);
        format_arguments(" write", command, command->written_from, command->argument_count, out);
    }
    if (command->location[0]) tsr_buffer_printf(out, "    %s", command->location);
    tsr_buffer_text(out, "\n");
}

void tsr_program_format(const tsr_program *program, const tsr_config *config, tsr_buffer *out) {
    tsr_buffer_printf(out, "program: %u kernel%s, %u entr%s\n", program->kernel_count,
                      TSR_PLURAL(program->kernel_count), program->entry_count,
                      TSR_PLURAL_Y(program->entry_count));
    for (uint32_t i = 0; i < program->entry_count; i++) {
        const tsr_program_entry *entry = &program->entries[i];
        const tsr_config_entry *declared = &config->entries[i];
        tsr_buffer_printf(out, "entry @%s (%s", entry->name, tsr_entry_kind_name(declared->kind));
        if (declared->batch) tsr_buffer_printf(out, ", batch %" PRIu64, declared->batch);
        uint64_t host_bytes = tsr_program_space_bytes(entry, TSR_SPACE_HOST);
        tsr_buffer_printf(out, "): workspace %" PRIu64 " byte%s", entry->workspace_bytes,
                          TSR_PLURAL(entry->workspace_bytes));
        if (host_bytes)
            tsr_buffer_printf(out, ", host %" PRIu64 " byte%s", host_bytes, TSR_PLURAL(host_bytes));
        tsr_buffer_text(out, "\n");
        format_regions(entry, config, out);
        format_sizes(entry, &declared->open, out);
        for (uint32_t j = 0; j < entry->buffer_count; j++) {
            tsr_buffer_printf(out, "  %%%u = ", j);
            format_buffer(&entry->buffers[j], config, declared, out);
        }
        for (uint32_t j = 0; j < entry->command_count; j++) {
            tsr_buffer_printf(out, "  %u: ", j);
            format_command(&entry->commands[j], program, entry, out);
        }
    }
}
