/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines of the tools: a table of flags, parsed strictly. A flag is given as `--name value`
 * or `--name=value`; one given twice is refused unless its row says otherwise.
 */
#ifndef TSR_TOOLS_COMMON_OPTIONS_H
#define TSR_TOOLS_COMMON_OPTIONS_H

#include "runtime/base/result.h"

typedef enum tsr_flag_kind {
    TSR_FLAG_SWITCH, /* bool */
    TSR_FLAG_TEXT,   /* const char * */
    TSR_FLAG_COUNT,  /* uint64_t, within min … max */
    TSR_FLAG_PAIR,   /* NAME=PATH, repeatable: tsr_flag_pairs */
    TSR_FLAG_LIST,   /* text, repeatable: tsr_flag_list */
} tsr_flag_kind;

/* What a tool does with the file that a value names. Each row of a table says it, so that no output
 * is written over what is read: see files.h. */
typedef enum tsr_file_use {
    TSR_FILE_NONE,    /* the value names no file */
    TSR_FILE_READ,    /* a file, or a directory of which everything is read */
    TSR_FILE_BUNDLE,  /* the same, and the signature beside it */
    TSR_FILE_BASE,    /* READ; a bundle that REPLACE may write anew: it has the same content */
    TSR_FILE_ARRAY,   /* a file of arrays, "FILE.npz:MEMBER" */
    TSR_FILE_SEARCH,  /* a directory where files are looked for; the tool adds what it finds */
    TSR_FILE_STATE,   /* a state directory, which is read and written */
    TSR_FILE_WRITE,   /* a file that is written, whole or not at all */
    TSR_FILE_WEIGHTS, /* WRITE, as safetensors: its name must not say another format */
    TSR_FILE_APPEND,  /* a file that lines are appended to; may be a pipe or a device */
    TSR_FILE_FOLDER,  /* a directory in which files are written; the tool adds their names */
    TSR_FILE_REPLACE, /* WRITE; may be a file of use BASE */
} tsr_file_use;

typedef struct tsr_flag_pair {
    const char *name, *value; /* name owned by the pairs, value borrowed from argv */
} tsr_flag_pair;

enum { TSR_FLAG_PAIRS_MAX = 256 };
typedef struct tsr_flag_pairs {
    tsr_flag_pair pairs[TSR_FLAG_PAIRS_MAX];
    size_t count;
} tsr_flag_pairs;

enum { TSR_FLAG_LIST_MAX = 64 };
typedef struct tsr_flag_list {
    const char *texts[TSR_FLAG_LIST_MAX]; /* borrowed from argv */
    size_t count;
} tsr_flag_list;

typedef struct tsr_flag {
    const char *name; /* "--steps" */
    tsr_flag_kind kind;
    tsr_file_use use;  /* of the value, or of a pair's; TSR_FILE_NONE for a switch or count */
    void *target;      /* what kind says */
    const char *value; /* metavariable for help: "N"; NULL for switches */
    const char *help;  /* one line */
    uint64_t min, max; /* COUNT */
    bool given;        /* set by the parser */
} tsr_flag;

/* Arguments that are no flags go to `positional` (room for argc). "--" ends the flags. TSR_USAGE:
 * unknown flag (lists the valid ones), missing, empty or malformed value, a flag twice, a name
 * twice. Asserts that a row whose value is called FILE, DIR, OUT … says what is done with it. */
TSR_RESULT tsr_flags_parse(tsr_ctx *ctx, int argc, char **argv, tsr_flag *flags, size_t flag_count,
                           const char **positional, size_t *out_positional_count);
void tsr_flags_print(const tsr_flag *flags, size_t flag_count); /* to stdout, one line each */
void tsr_flag_pairs_finish(tsr_flag_pairs *pairs);

/* Ends a tool: prints the error as one line `TOOL: error: …` to stderr, flushes stdout (a closed or
 * full one is an error of its own), returns the exit code. Where standard error itself could not be
 * written, only the code tells: TSR_IO after success. */
int tsr_tool_finish(tsr_ctx *ctx, const char *tool, tsr_result result);
/* The same where an error has been printed already. */
int tsr_tool_end(const char *tool, tsr_result result);
/* Prepares a tool: a closed stdout or a file that may not grow is an error of its writer, and not
 * a death by SIGPIPE or SIGXFSZ, nor text in a file that the tool opens. SIGTERM, SIGINT, SIGHUP
 * and SIGUSR1, unless ignored, remove the temporaries of files being written before they end the
 * tool. Called first. */
void tsr_tool_begin(void);
/* A tsr_log_fn: `TOOL: warning: …` to stderr; user is the tool's name. */
void tsr_tool_log(void *user, tsr_log_level level, const char *text);

#endif
