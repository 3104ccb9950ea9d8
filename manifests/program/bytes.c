/* SPDX-License-Identifier: Apache-2.0
 *
 * Program <-> bytes: one stream, little-endian, no padding, so every byte is significant. A count
 * is accepted only if that many items of the smallest size fit into the remaining bytes; only then
 * is memory allocated. program.c verifies the meaning afterwards.
 */
#include "manifests/program.h"
#include "runtime/base/plural.h"

#include <string.h>

static const char magic[8] = {'T', 'S', 'R', 'P', 'R', 'O', 'G', '\n'};

enum {
    VERSION_REGIONS = 3, /* the first version whose entries have regions */
    VERSION_SIZES = 10,  /* the first one whose entries have sizes */
    VERSION_VERIFY = 11, /* the first one that checks numbers */
};

enum { /* bytes of the smallest items, with empty strings */
       STRING_BYTES_MIN = 4,
       BUFFER_BYTES_MIN = 4 + 4 + 8 + 4 + 4 + STRING_BYTES_MIN,
       COMMAND_BYTES_MIN = 4 + 4 + 8 + 8 + 4 + 4 + STRING_BYTES_MIN,
       ENTRY_BYTES_MIN = STRING_BYTES_MIN + 8 + 4 + 4,
       SIZE_BYTES = 4 + 4 + 4 + 8,
       REGION_BYTES_MIN = STRING_BYTES_MIN + 4 + 4,
       ARGUMENT_BYTES = 4,
       DIM_BYTES = 8,
};

/* ---- writing ---- */

static void write_string(tsr_buffer *out, const char *text) {
    size_t size = strlen(text);
    TSR_ASSERT(size <= TSR_PROGRAM_TEXT_MAX);
    tsr_buffer_u32(out, (uint32_t)size);
    tsr_buffer_append(out, text, size);
}

static void write_buffer(tsr_buffer *out, const tsr_program_buffer *buffer, uint32_t version) {
    TSR_ASSERT(buffer->shape.rank <= TSR_RANK_MAX);
    tsr_buffer_u32(out, buffer->space);
    tsr_buffer_u32(out, buffer->index);
    tsr_buffer_u64(out, buffer->offset_bytes);
    tsr_buffer_u32(out, buffer->dtype);
    tsr_buffer_u32(out, buffer->shape.rank);
    for (uint32_t i = 0; i < buffer->shape.rank; i++) tsr_buffer_u64(out, buffer->shape.dims[i]);
    if (version >= VERSION_SIZES) tsr_buffer_u32(out, buffer->rows);
    write_string(out, buffer->name);
}

static void write_command(tsr_buffer *out, const tsr_program_command *command, uint32_t version) {
    tsr_buffer_u32(out, command->opcode);
    tsr_buffer_u32(out, command->kernel);
    tsr_buffer_u64(out, command->grid);
    tsr_buffer_u64(out, command->cost);
    if (version >= VERSION_SIZES) {
        tsr_buffer_u32(out, command->grid_size);
        tsr_buffer_u32(out, command->cost_size);
    }
    tsr_buffer_u32(out, command->argument_count);
    tsr_buffer_u32(out, command->written_from);
    for (uint32_t i = 0; i < command->argument_count; i++)
        tsr_buffer_u32(out, command->arguments[i]);
    write_string(out, command->location);
}

static void write_regions(tsr_buffer *out, const tsr_program_entry *entry) {
    tsr_buffer_u32(out, entry->on_recovery);
    tsr_buffer_u32(out, entry->region_count);
    for (uint32_t i = 0; i < entry->region_count; i++) {
        write_string(out, entry->regions[i].name);
        tsr_buffer_u32(out, entry->regions[i].mode);
        tsr_buffer_u32(out, entry->regions[i].on_failure);
    }
}

static void write_sizes(tsr_buffer *out, const tsr_program_entry *entry) {
    tsr_buffer_u32(out, entry->size_count);
    for (uint32_t i = 0; i < entry->size_count; i++) {
        tsr_buffer_u32(out, entry->sizes[i].kind);
        tsr_buffer_u32(out, entry->sizes[i].a);
        tsr_buffer_u32(out, entry->sizes[i].b);
        tsr_buffer_u64(out, entry->sizes[i].number);
    }
}

static bool has_command(const tsr_program *program, tsr_opcode opcode) {
    for (uint32_t i = 0; i < program->entry_count; i++)
        for (uint32_t j = 0; j < program->entries[i].command_count; j++)
            if (program->entries[i].commands[j].opcode == opcode) return true;
    return false;
}

static bool has_parts(const tsr_program *program) {
    for (uint32_t i = 0; i < program->entry_count; i++) {
        const tsr_program_entry *entry = &program->entries[i];
        for (uint32_t j = 0; j < entry->buffer_count; j++)
            if (entry->buffers[j].space == TSR_SPACE_PART) return true;
        for (uint32_t j = 0; j < entry->command_count; j++)
            if (entry->commands[j].opcode == TSR_OP_COLLECTIVE &&
                entry->commands[j].kernel == TSR_COLLECTIVE_SLICE)
                return true;
    }
    return false;
}

static bool gathers_in_loop(const tsr_program_entry *entry) {
    uint64_t left = 0; /* remaining commands of the current loop */
    for (uint32_t i = 0; i < entry->command_count; i++) {
        const tsr_program_command *command = &entry->commands[i];
        if (left > 0 && command->opcode == TSR_OP_COLLECTIVE) return true;
        left = command->opcode == TSR_OP_EACH_VRANK ? command->grid : left - (left > 0);
    }
    return false;
}

/* Returns the lowest version that can represent the program. */
static uint32_t version_of(const tsr_program *program) {
    if (has_command(program, TSR_OP_VERIFY)) return VERSION_VERIFY;
    for (uint32_t i = 0; i < program->entry_count; i++)
        if (program->entries[i].size_count) return VERSION_SIZES;
    for (uint32_t i = 0; i < program->entry_count; i++)
        if (tsr_program_has_offloads(&program->entries[i])) return 9;
    for (uint32_t i = 0; i < program->entry_count; i++)
        if (gathers_in_loop(&program->entries[i])) return 8;
    for (uint32_t i = 0; i < program->entry_count; i++)
        if (tsr_program_has_control(&program->entries[i])) return 7;
    if (has_parts(program)) return 6;
    if (has_command(program, TSR_OP_COLLECTIVE)) return 5;
    if (has_command(program, TSR_OP_EACH_VRANK)) return 4;
    for (uint32_t i = 0; i < program->entry_count; i++)
        if (program->entries[i].region_count || program->entries[i].on_recovery)
            return VERSION_REGIONS;
    return tsr_program_prepacked_count(program) ? 2 : 1;
}

tsr_result tsr_program_encode(tsr_ctx *ctx, const tsr_program *program, tsr_arena *arena,
                              void **out_bytes, size_t *out_size_bytes) {
    tsr_buffer out = {0};
    uint32_t version = version_of(program);
    tsr_buffer_append(&out, magic, sizeof magic);
    tsr_buffer_u32(&out, version);
    tsr_buffer_u32(&out, program->kernel_count);
    tsr_buffer_u32(&out, program->entry_count);
    for (uint32_t i = 0; i < program->kernel_count; i++) write_string(&out, program->kernels[i]);
    for (uint32_t i = 0; i < program->entry_count; i++) {
        const tsr_program_entry *entry = &program->entries[i];
        write_string(&out, entry->name);
        tsr_buffer_u64(&out, entry->workspace_bytes);
        tsr_buffer_u32(&out, entry->buffer_count);
        tsr_buffer_u32(&out, entry->command_count);
        if (version >= VERSION_REGIONS) write_regions(&out, entry);
        if (version >= VERSION_SIZES) write_sizes(&out, entry);
        for (uint32_t j = 0; j < entry->buffer_count; j++)
            write_buffer(&out, &entry->buffers[j], version);
        for (uint32_t j = 0; j < entry->command_count; j++)
            write_command(&out, &entry->commands[j], version);
    }
    void *bytes = out.failed ? NULL : tsr_arena_memdup(arena, out.bytes, out.size_bytes);
    size_t size_bytes = out.size_bytes;
    tsr_buffer_finish(&out);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory to write the program");
    *out_bytes = bytes;
    *out_size_bytes = size_bytes;
    return TSR_SUCCESS;
}

/* ---- reading ---- */

typedef struct reader {
    tsr_ctx *ctx;
    tsr_arena *arena;
    const unsigned char *bytes;
    size_t size, at;
    const char *what; /* "kernels", "entries", "buffers", "commands" */
    uint32_t entry, index, version;
} reader;

#define READ_FAIL(r, ...)                                                                          \
    return read_fail((r), tsr_fail_((r)->ctx, TSR_CORRUPT, 0, __FILE__, __LINE__, __VA_ARGS__))

static TSR_RESULT read_fail(reader *r, tsr_result result) {
    if (r->what[0] == 'b' || r->what[0] == 'c')
        return tsr_error_prefix(r->ctx, result, "program: entries[%u]: %s[%u] at offset %zu",
                                r->entry, r->what, r->index, r->at);
    return tsr_error_prefix(r->ctx, result, "program: %s[%u] at offset %zu", r->what, r->index,
                            r->at);
}

static TSR_RESULT need(reader *r, size_t size) {
    if (size > r->size - r->at)
        READ_FAIL(r, "expected %zu more byte%s, got %zu", size, TSR_PLURAL(size), r->size - r->at);
    return TSR_SUCCESS;
}

static uint32_t take_u32(reader *r) {
    const unsigned char *b = r->bytes + r->at;
    r->at += 4;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint64_t take_u64(reader *r) {
    uint64_t low = take_u32(r);
    return low | (uint64_t)take_u32(r) << 32;
}

static TSR_RESULT read_string(reader *r, size_t size_max, const char **out_text) {
    TRY(r->ctx, need(r, STRING_BYTES_MIN));
    uint32_t size = take_u32(r);
    if (size > size_max)
        READ_FAIL(r, "expected a text of at most %zu byte%s, got %u", size_max,
                  TSR_PLURAL(size_max), size);
    TRY(r->ctx, need(r, size));
    if (memchr(r->bytes + r->at, 0, size)) READ_FAIL(r, "expected a text without NUL, got one");
    *out_text = tsr_arena_strndup(r->arena, (const char *)r->bytes + r->at, size);
    if (!*out_text) FAIL(r->ctx, TSR_MEMORY, "no memory to read a program of %zu bytes", r->size);
    r->at += size;
    return TSR_SUCCESS;
}

/* Allocates zeroed items for a count that is within the limit and can fit into the remaining bytes.
 */
static TSR_RESULT read_items(reader *r, const char *what, uint32_t count, uint32_t count_max,
                             size_t item_bytes_min, size_t struct_bytes, void *out_items) {
    if (count > count_max) READ_FAIL(r, "expected at most %u %s, got %u", count_max, what, count);
    if (count > (r->size - r->at) / item_bytes_min)
        READ_FAIL(r, "expected %u %s of at least %zu byte%s each, got %zu byte%s", count, what,
                  item_bytes_min, TSR_PLURAL(item_bytes_min), r->size - r->at,
                  TSR_PLURAL(r->size - r->at));
    void *items = tsr_arena_alloc(r->arena, count, struct_bytes, 16);
    if (!items) FAIL(r->ctx, TSR_MEMORY, "no memory for %u %s", count, what);
    memcpy(out_items, &items, sizeof items);
    return TSR_SUCCESS;
}

static TSR_RESULT read_buffer(reader *r, tsr_program_buffer *buffer) {
    TRY(r->ctx, need(r, BUFFER_BYTES_MIN));
    buffer->space = (tsr_space)take_u32(r);
    buffer->index = take_u32(r);
    buffer->offset_bytes = take_u64(r);
    buffer->dtype = (tsr_dtype)take_u32(r);
    buffer->shape.rank = take_u32(r);
    if (buffer->shape.rank > TSR_RANK_MAX)
        READ_FAIL(r, "rank: expected 0 ... %d, got %u", TSR_RANK_MAX, buffer->shape.rank);
    TRY(r->ctx, need(r, (size_t)buffer->shape.rank * DIM_BYTES));
    for (uint32_t i = 0; i < buffer->shape.rank; i++) buffer->shape.dims[i] = take_u64(r);
    if (r->version >= VERSION_SIZES) {
        TRY(r->ctx, need(r, 4));
        buffer->rows = take_u32(r);
    }
    return read_string(r, TSR_PROGRAM_TEXT_MAX, &buffer->name);
}

static TSR_RESULT read_command(reader *r, tsr_program_command *command) {
    TRY(r->ctx, need(r, COMMAND_BYTES_MIN));
    command->opcode = (tsr_opcode)take_u32(r);
    command->kernel = take_u32(r);
    command->grid = take_u64(r);
    command->cost = take_u64(r);
    if (r->version >= VERSION_SIZES) {
        TRY(r->ctx, need(r, 4 + 4 + 4 + 4));
        command->grid_size = take_u32(r);
        command->cost_size = take_u32(r);
    }
    command->argument_count = take_u32(r);
    command->written_from = take_u32(r);
    TRY(r->ctx, read_items(r, "arguments", command->argument_count, TSR_PROGRAM_ARGUMENTS_MAX,
                           ARGUMENT_BYTES, sizeof *command->arguments, &command->arguments));
    for (uint32_t i = 0; i < command->argument_count; i++) command->arguments[i] = take_u32(r);
    return read_string(r, TSR_PROGRAM_TEXT_MAX, &command->location);
}

static TSR_RESULT read_regions(reader *r, tsr_program_entry *entry) {
    TRY(r->ctx, need(r, 4 + 4));
    entry->on_recovery = take_u32(r);
    entry->region_count = take_u32(r);
    TRY(r->ctx, read_items(r, "regions", entry->region_count, TSR_PROGRAM_REGIONS_MAX,
                           REGION_BYTES_MIN, sizeof *entry->regions, &entry->regions));
    for (uint32_t i = 0; i < entry->region_count; i++) {
        tsr_program_region *region = &entry->regions[i];
        TRY(r->ctx, read_string(r, TSR_NAME_MAX, &region->name));
        TRY(r->ctx, need(r, 4 + 4));
        region->mode = (tsr_region_mode)take_u32(r);
        region->on_failure = take_u32(r);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_sizes(reader *r, tsr_program_entry *entry) {
    TRY(r->ctx, need(r, 4));
    entry->size_count = take_u32(r);
    TRY(r->ctx, read_items(r, "sizes", entry->size_count, TSR_PROGRAM_SIZES_MAX, SIZE_BYTES,
                           sizeof *entry->sizes, &entry->sizes));
    for (uint32_t i = 0; i < entry->size_count; i++) {
        tsr_program_size *size = &entry->sizes[i];
        size->kind = (tsr_size_kind)take_u32(r);
        size->a = take_u32(r);
        size->b = take_u32(r);
        size->number = take_u64(r);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_entry(reader *r, tsr_program_entry *entry) {
    TRY(r->ctx, read_string(r, TSR_NAME_MAX, &entry->name));
    TRY(r->ctx, need(r, ENTRY_BYTES_MIN - STRING_BYTES_MIN));
    entry->workspace_bytes = take_u64(r);
    entry->buffer_count = take_u32(r);
    entry->command_count = take_u32(r);
    if (r->version >= VERSION_REGIONS) TRY(r->ctx, read_regions(r, entry));
    if (r->version >= VERSION_SIZES) TRY(r->ctx, read_sizes(r, entry));
    TRY(r->ctx, read_items(r, "buffers", entry->buffer_count, TSR_PROGRAM_BUFFERS_MAX,
                           BUFFER_BYTES_MIN, sizeof *entry->buffers, &entry->buffers));
    r->what = "buffers";
    for (r->index = 0; r->index < entry->buffer_count; r->index++)
        TRY(r->ctx, read_buffer(r, &entry->buffers[r->index]));
    r->what = "commands";
    r->index = 0;
    TRY(r->ctx, read_items(r, "commands", entry->command_count, TSR_PROGRAM_COMMANDS_MAX,
                           COMMAND_BYTES_MIN, sizeof *entry->commands, &entry->commands));
    for (; r->index < entry->command_count; r->index++)
        TRY(r->ctx, read_command(r, &entry->commands[r->index]));
    return TSR_SUCCESS;
}

static TSR_RESULT read_head(reader *r, tsr_program *program, uint32_t *out_version) {
    tsr_ctx *ctx = r->ctx;
    size_t head_bytes = sizeof magic + 4 + 4 + 4;
    if (r->size < head_bytes)
        FAIL(ctx, TSR_CORRUPT, "program: expected at least %zu byte%s, got %zu", head_bytes,
             TSR_PLURAL(head_bytes), r->size);
    if (memcmp(r->bytes, magic, sizeof magic) != 0)
        FAIL(ctx, TSR_CORRUPT, "program: offset 0: expected the magic 'TSRPROG', got other bytes");
    r->at = sizeof magic;
    uint32_t version = take_u32(r);
    if (version > TSR_PROGRAM_VERSION)
        FAIL(ctx, TSR_VERSION,
             "program: version: expected %d, got %u; it needs a newer Tessera, this "
             "is " TSR_VERSION_TEXT,
             TSR_PROGRAM_VERSION, version);
    if (version == 0)
        FAIL(ctx, TSR_CORRUPT, "program: version: expected 1 ... %d, got 0", TSR_PROGRAM_VERSION);
    *out_version = version;
    program->kernel_count = take_u32(r);
    program->entry_count = take_u32(r);
    return TSR_SUCCESS;
}

tsr_result tsr_program_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                              const tsr_config *config, tsr_arena *arena,
                              tsr_program *out_program) {
    reader r = {.ctx = ctx, .arena = arena, .bytes = bytes, .size = size_bytes, .what = "kernels"};
    tsr_program program = {0};
    TRY(ctx, read_head(&r, &program, &r.version));
    TRY(ctx, read_items(&r, "kernels", program.kernel_count, TSR_PROGRAM_KERNELS_MAX,
                        STRING_BYTES_MIN, sizeof *program.kernels, &program.kernels));
    for (; r.index < program.kernel_count; r.index++)
        TRY(ctx, read_string(&r, TSR_NAME_MAX, &program.kernels[r.index]));
    r.what = "entries";
    r.index = 0;
    TRY(ctx, read_items(&r, "entries", program.entry_count, TSR_CONFIG_ENTRIES_MAX, ENTRY_BYTES_MIN,
                        sizeof *program.entries, &program.entries));
    for (r.entry = 0; r.entry < program.entry_count; r.entry++) {
        r.what = "entries";
        r.index = r.entry;
        TRY(ctx, read_entry(&r, &program.entries[r.entry]));
    }
    if (r.at != size_bytes)
        FAIL(ctx, TSR_CORRUPT, "program: expected the end at offset %zu, got %zu more byte%s", r.at,
             size_bytes - r.at, TSR_PLURAL(size_bytes - r.at));
    TRY(ctx, tsr_program_verify(ctx, &program, config, TSR_CORRUPT));
    if (r.version != version_of(&program))
        FAIL(ctx, TSR_CORRUPT, "program: version: expected %u for its contents, got %u",
             version_of(&program), r.version);
    *out_program = program;
    return TSR_SUCCESS;
}
