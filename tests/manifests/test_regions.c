/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions, exports and handlers of a program: decoded bytes encode to the same bytes, and verify
 * and decode refuse commands in a wrong order.
 */
#include "tests/manifests/refused.h"

#include <criterion/criterion.h>
#include <string.h>

enum { IMPORT, ENTER, LAUNCH, LEAVE, EXPORT, AWAIT_EXPORT, AWAIT_IMPORT, COUNT };

static tsr_config_tensor tensors[] = {
    {.name = "w", .role = TSR_ROLE_PARAM, .dtype = TSR_DTYPE_F32, .shape = {1, {4}}},
};
static tsr_config_port outputs[] = {
    {.name = "y", .dtype = TSR_DTYPE_F32, .shape = {1, {4}}, .source = TSR_PORT_ARGUMENT}};
static tsr_config_entry entries[] = {
    {.name = "mend", .kind = TSR_ENTRY_TRAIN},
    {.name = "predict", .kind = TSR_ENTRY_INFER},
    {.name = "train", .kind = TSR_ENTRY_TRAIN, .output_count = 1, .outputs = outputs},
};
static const tsr_config config = {.version_major = 1,
                                  .name = "m",
                                  .producer = "test",
                                  .numerics = "portable",
                                  .virtual_ranks = 1,
                                  .tensor_count = 1,
                                  .entry_count = 3,
                                  .tensors = tensors,
                                  .entries = entries};

typedef struct example {
    tsr_program program;
    const char *kernels[1];
    tsr_program_entry entries[3];
    tsr_program_buffer buffers[4];
    tsr_program_region regions[2];
    tsr_program_command commands[COUNT];
    uint32_t arguments[COUNT][3];
} example;

static void put(example *e, int at, tsr_opcode opcode, uint32_t of, uint32_t count,
                uint32_t written_from, uint32_t first, uint32_t second) {
    e->arguments[at][0] = first;
    e->arguments[at][1] = second;
    e->commands[at] = (tsr_program_command){.opcode = opcode,
                                            .kernel = of,
                                            .grid = opcode == TSR_OP_LAUNCH,
                                            .argument_count = count,
                                            .written_from = written_from,
                                            .arguments = e->arguments[at],
                                            .location = ""};
}

/* Imports the export of the previous step, computes y = k(it) in a region, and exports y. */
static void make_example(example *e) {
    static const tsr_space spaces[] = {TSR_SPACE_TENSOR, TSR_SPACE_OUTPUT, TSR_SPACE_WORKSPACE,
                                       TSR_SPACE_WORKSPACE};
    *e = (example){.program = {.kernel_count = 1, .entry_count = 3}, .kernels = {"k"}};
    e->program.kernels = e->kernels;
    e->program.entries = e->entries;
    for (int i = 0; i < 4; i++)
        e->buffers[i] = (tsr_program_buffer){
            .space = spaces[i], .dtype = TSR_DTYPE_F32, .shape = {1, {4}}, .name = ""};
    e->buffers[3].offset_bytes = 64;
    put(e, IMPORT, TSR_OP_IMPORT, 0, 2, 1, 0, 2);
    put(e, ENTER, TSR_OP_ENTER, 0, 0, 0, 0, 0);
    put(e, LAUNCH, TSR_OP_LAUNCH, 0, 2, 1, 2, 1);
    put(e, LEAVE, TSR_OP_LEAVE, 0, 1, 1, 1, 0);
    put(e, EXPORT, TSR_OP_EXPORT, 0, 2, 1, 1, 0);
    put(e, AWAIT_EXPORT, TSR_OP_AWAIT, EXPORT, 0, 0, 0, 0);
    put(e, AWAIT_IMPORT, TSR_OP_AWAIT, IMPORT, 0, 0, 0, 0);
    e->regions[0] = (tsr_program_region){"stage", TSR_REGION_REPLAY, 1};
    e->regions[1] = (tsr_program_region){"other", TSR_REGION_RESTART, 0};
    for (int i = 0; i < 3; i++) e->entries[i].name = entries[i].name;
    e->entries[2] = (tsr_program_entry){.name = "train",
                                        .workspace_bytes = 128,
                                        .buffer_count = 4,
                                        .command_count = COUNT,
                                        .buffers = e->buffers,
                                        .commands = e->commands,
                                        .region_count = 1,
                                        .regions = e->regions,
                                        .on_recovery = 1};
}

Test(regions, come_back_and_are_listed) {
    example e;
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program again;
    tsr_buffer text = {0};
    void *bytes;
    size_t size;
    make_example(&e);
    cr_assert_eq(tsr_program_verify(&ctx, &e.program, &config, TSR_INTERNAL).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_program_encode(&ctx, &e.program, &arena, &bytes, &size).code, TSR_OK);
    cr_assert_eq(((unsigned char *)bytes)[8], 3, "the version that has regions");
    cr_assert_eq(tsr_program_decode(&ctx, bytes, size, &config, &arena, &again).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert(tsr_program_is_handler(&again, 0) && !tsr_program_is_handler(&again, 2));
    cr_assert_str_eq(tsr_program_exported(&again.entries[2]), "stage");
    cr_assert_str_eq(tsr_program_exported(&again.entries[0]), "");
    tsr_program_format(&again, &config, &text);
    static const char want[] = "  region \"stage\" replay on_failure @mend\n"
                               "  on_recovery @mend\n"
                               "  %0 = param w : 4xf32\n"
                               "  %1 = output y : 4xf32\n"
                               "  %2 = workspace +0 : 4xf32\n"
                               "  %3 = workspace +64 : 4xf32\n"
                               "  0: import \"stage\" read %0 write %2\n"
                               "  1: enter \"stage\"\n"
                               "  2: launch @k grid 1 read %2 write %1\n"
                               "  3: leave \"stage\" checks %1\n"
                               "  4: export \"stage\" read %1 write %0\n"
                               "  5: await 4\n"
                               "  6: await 0\n";
    cr_assert(strstr(text.bytes, want), "%s", text.bytes);
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
}

#define REFUSED(change, message)                                                                   \
    do {                                                                                           \
        example e;                                                                                 \
        make_example(&e);                                                                          \
        tsr_program_command *commands = e.commands;                                                \
        (void)commands;                                                                            \
        change;                                                                                    \
        check_program_refused(&e.program, &config, #change, "program: entry 'train': " message);   \
    } while (0)

static void swap(tsr_program_command *a, tsr_program_command *b) {
    tsr_program_command saved = *a;
    *a = *b;
    *b = saved;
}

Test(regions, a_broken_order_is_refused) {
    REFUSED(swap(&commands[ENTER], &commands[LEAVE]),
            "commands[1]: leave: expected region 'stage' to be open, got none");
    REFUSED(swap(&commands[LEAVE], &commands[EXPORT]),
            "commands[3]: export: expected region 'stage' to be left before it is exported, got it "
            "open");
    REFUSED(swap(&commands[IMPORT], &commands[EXPORT]),
            "commands[0]: export: expected region 'stage' to be left before it is exported, got it "
            "not begun");
    REFUSED(swap(&commands[EXPORT], &commands[AWAIT_EXPORT]),
            "commands[4]: await: expected an export, import, offload or prefetch before it, got "
            "command 4");
    REFUSED(commands[AWAIT_EXPORT] = commands[IMPORT],
            "commands[5]: import: expected it before the export of region 'stage', got it after");
    REFUSED(commands[AWAIT_EXPORT] = commands[AWAIT_IMPORT],
            "commands[6]: await: expected command 0 once, got it again");
    REFUSED(e.entries[2].command_count = AWAIT_EXPORT,
            "commands[4]: export: expected an await of this command, got none");
    REFUSED(commands[LEAVE] = commands[ENTER],
            "commands[3]: enter: expected region 'stage' to be left before 'stage' begins, got it "
            "open");
    REFUSED(commands[EXPORT] = commands[ENTER],
            "commands[4]: enter: expected region 'stage' once, got it again");
    REFUSED(e.entries[2].command_count = LEAVE, "expected region 'stage' to be left, got it open");
    REFUSED(e.regions[0].mode = TSR_REGION_IMPORTED,
            "commands[1]: enter: expected region 'stage' to be another entry's");
}

Test(regions, tensors_are_written_behind_them_alone) {
    REFUSED((commands[LAUNCH].written_from = 0, e.arguments[LAUNCH][0] = 0),
            "commands[2]: expected no tensor to be written in region 'stage', got one");
    REFUSED(
        {
            commands[IMPORT] = commands[LAUNCH];
            e.arguments[LAUNCH][0] = 0;
            commands[IMPORT].written_from = 0;
        },
        "commands[1]: enter: expected a region before tensors are written, got one after");
}

Test(regions, arguments_are_checked) {
    REFUSED(commands[EXPORT].kernel = 1, "commands[4]: region: expected less than 1, got 1");
    REFUSED(commands[AWAIT_EXPORT].kernel = COUNT,
            "commands[5]: command: expected less than 7, got 7");
    REFUSED(commands[ENTER].grid = 1, "commands[1]: grid: expected 0, got 1");
    REFUSED(commands[ENTER].argument_count = 1, "commands[1]: expected no arguments, got 1");
    REFUSED(commands[EXPORT].argument_count = 1,
            "commands[4]: expected as many targets as values, got 1 in all");
    REFUSED(commands[EXPORT].written_from = 2, "commands[4]: written_from: expected 1, got 2");
    REFUSED(e.arguments[EXPORT][1] = 3,
            "commands[4]: arguments[0]: expected one of the two in a tensor, got spaces 3 and 4");
    REFUSED(e.buffers[2].shape.dims[0] = 3,
            "commands[0]: arguments[0]: expected 3xf32 as its tensor has, got 4xf32");
    REFUSED(commands[AWAIT_IMPORT].opcode = 12,
            "commands[6]: opcode: expected 1 ... 11 or 16 ... 25, got 12");
}

Test(regions, names_and_handlers_are_checked) {
    REFUSED((e.entries[2].region_count = 2, e.regions[1].name = "stage"),
            "regions[1]: expected a new name, got 'stage' again");
    REFUSED((e.entries[2].region_count = 2, e.regions[1].name = ""),
            "regions[1]: expected a name and a mode of 0 ... 2, got mode 2");
    REFUSED(e.regions[0].mode = 3, "regions[0]: expected a name and a mode of 0 ... 2, got mode 3");
    REFUSED(e.regions[0].on_failure = 4, "stage: expected 0 ... 3, got 4");
    REFUSED(e.entries[2].on_recovery = 2,
            "on_recovery: expected an entry of kind train without inputs, outputs and regions, got "
            "'predict'");
    REFUSED(e.regions[0].on_failure = 3,
            "stage: expected an entry of kind train without inputs, outputs and regions, got "
            "'train'");
}
