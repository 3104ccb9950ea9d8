/* SPDX-License-Identifier: Apache-2.0
 *
 * What one input goes through: reading, every pass in turn, kernels, the host program, printing and
 * reading again. A module of a later level goes on from there.
 */
#ifndef TSR_TESTS_COMPILER_FUZZ_STAGES_H
#define TSR_TESTS_COMPILER_FUZZ_STAGES_H

#include "compiler/mlir.h"

enum { STAGES_MAX = 64, STAGE_NAME_MAX = 64 };

/* "parse", "any pass", the passes in order, "tile", "target", "llvm", "program", "read again"; NULL
 * after the last. */
const char *const *stages_names(void);
/* The last of them that is a pass. */
size_t stages_last_pass(void);
/* A pass of tessera-opt's table that is no stage, or NULL. */
const char *stages_missing_pass(void);

/* What a line of standard error begins with before the process is ended for an internal error. */
#define STAGES_INTERNAL "internal error: "

/* Of an input that its stages did not take to the end. */
typedef struct stages_end {
    tsr_code code;                 /* TSR_OK: it came through, or ended without one */
    size_t numbered;               /* errors with a number */
    char text[TSR_ERROR_TEXT_MAX]; /* with the code */
} stages_end;

typedef struct stages {
    tsr_diag_list diags;
    MlirContext context;
    /* Called before a stage begins. */
    void (*on_stage)(void *user, size_t stage);
    void *user;
    size_t inputs; /* since the context was made */
    bool plain;    /* no pass alone, and no options of the driver */
    /* Of a plain run: to Tile IR at most, or else, from Tile or Target IR, to LLVM IR and the host
     * program; `end` says how it ended, an internal error too. */
    bool next;
    stages_end end;
    const char *target; /* that dumps are of; NULL: any */
} stages;

void stages_finish(stages *s);
/* Runs an input, text or bytecode; how many stages it passed. A program without ops after a stage
 * passed no further one. */
size_t stages_run(stages *s, const char *bytes, size_t size_bytes);
/* What the compiler's child does with bytecode, in this process. */
void stages_read(stages *s, const char *bytes, size_t size_bytes);
/* Appends the bytecode of a text; false if it does not parse. */
bool stages_bytecode(stages *s, const char *text, size_t size_bytes, tsr_buffer *out);
/* What the levels are of a whole program: lowered Graph, Schedule, Tile and Target IR. False if it
 * does not come so far. */
enum { STAGES_DUMPS = 4 };
bool stages_dumps(stages *s, const char *text, size_t size_bytes,
                  tsr_buffer out[static STAGES_DUMPS]);
/* Appends the text with every function that is none an entry, its ports named; false if it does not
 * parse. */
bool stages_entries(stages *s, const char *text, size_t size_bytes, tsr_buffer *out);

#endif
