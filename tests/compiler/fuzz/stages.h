/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of one input: reading, every pass in turn, kernels, the host program, printing and
 * reading again. A module of a later level enters at its level.
 */
#ifndef TSR_TESTS_COMPILER_FUZZ_STAGES_H
#define TSR_TESTS_COMPILER_FUZZ_STAGES_H

#include "compiler/ir/mlir.h"

enum { STAGES_MAX = 64, STAGE_NAME_MAX = 64 };

/* "parse", "any pass", the passes in order, "tile", "target", "llvm", "program", "read again"; NULL
 * after the last. */
const char *const *stages_names(void);
/* The index of the last stage that is a pass. */
size_t stages_last_pass(void);
/* A pass of tessera-opt's table that is not a stage, or NULL. */
const char *stages_missing_pass(void);

/* The prefix of the line on standard error that precedes the abort for an internal error. */
#define STAGES_INTERNAL "internal error: "

/* The end of an input that did not pass all stages. */
typedef struct stages_end {
    tsr_code code;                 /* TSR_OK: it passed, or ended without an error code */
    size_t numbered;               /* number of numbered errors */
    char text[TSR_ERROR_TEXT_MAX]; /* the message of the code */
} stages_end;

typedef struct stages {
    tsr_diag_list diags;
    MlirContext context;
    /* Called before a stage begins. */
    void (*on_stage)(void *user, size_t stage);
    void *user;
    size_t inputs; /* inputs since the context was created */
    bool plain;    /* no single passes and no options of the driver */
    /* A plain run that ends at Tile IR at the latest, or, if it begins with Tile or Target IR, at
     * LLVM IR and the host program; `end` describes how it ended, also after an internal error. */
    bool next;
    stages_end end;
    const char *target; /* the target of dumps; NULL: any */
} stages;

void stages_finish(stages *s);
/* Runs an input, text or bytecode; returns the number of passed stages. A program that has no ops
 * after a stage passes no further stage. */
size_t stages_run(stages *s, const char *bytes, size_t size_bytes);
/* Reads bytecode like the compiler's child, but in this process. */
void stages_read(stages *s, const char *bytes, size_t size_bytes);
/* Appends the bytecode of a text; false if it does not parse. */
bool stages_bytecode(stages *s, const char *text, size_t size_bytes, tsr_buffer *out);
/* Dumps the levels of a whole program: lowered Graph, Schedule, Tile and Target IR. False if a
 * stage fails. */
enum { STAGES_DUMPS = 4 };
bool stages_dumps(stages *s, const char *text, size_t size_bytes,
                  tsr_buffer out[static STAGES_DUMPS]);
/* Appends the text after turning every function that is not an entry into one, with named ports;
 * false if it does not parse. */
bool stages_entries(stages *s, const char *text, size_t size_bytes, tsr_buffer *out);

#endif
