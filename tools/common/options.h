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

/* How a tool uses the file that a value names. Each row of a table states it, so that no output
 * overwrites an input: see files.h. */
typedef enum tsr_file_use {
    TSR_FILE_NONE,    /* the value names no file */
    TSR_FILE_READ,    /* a file, or a directory whose files are all read */
    TSR_FILE_BUNDLE,  /* the same, and the signature next to it */
    TSR_FILE_BASE,    /* READ; a bundle that REPLACE may rewrite with the same content */
    TSR_FILE_ARRAY,   /* a file of arrays, "FILE.npz:MEMBER" */
    TSR_FILE_SEARCH,  /* a directory that is searched for files; the tool adds the files that it
                         finds */
    TSR_FILE_STATE,   /* a state directory: read and written */
    TSR_FILE_WRITE,   /* a file: written whole or not at all */
    TSR_FILE_WEIGHTS, /* WRITE, as safetensors: its name must not have the ending of another format
                       */
    TSR_FILE_APPEND,  /* a file to which lines are appended; may be a pipe or a device */
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
    tsr_file_use use;  /* use of the named file; TSR_FILE_NONE for a switch or count */
    void *target;      /* type as stated by kind */
    const char *value; /* metavariable for help: "N"; NULL for switches */
    const char *help;  /* one line */
    uint64_t min, max; /* COUNT only */
    bool given;        /* set by the parser */
} tsr_flag;
/* A row of a table; every table of flags has these columns. KIND and USE without their prefix. */
#define TSR_FLAG(name, kind, use, target, value, help, min, max)                                   \
    { name, TSR_FLAG_##kind, TSR_FILE_##use, target, value, help, min, max, false }

/* Arguments that are not flags go to `positional` (room for argc). "--" ends the flags. Fails with
 * TSR_USAGE for an unknown flag (lists the valid ones), a missing, empty or malformed value, a
 * duplicate flag or name. Asserts that a row whose value is called FILE, DIR, OUT … states a file
 * use. */
TSR_RESULT tsr_flags_parse(tsr_ctx *ctx, int argc, char **argv, tsr_flag *flags, size_t flag_count,
                           const char **positional, size_t *out_positional_count);
/* prints to stdout, one line each */
void tsr_flags_print(const tsr_flag *flags, size_t flag_count);
void tsr_flag_pairs_finish(tsr_flag_pairs *pairs);

/* Ends a tool: prints the error as one line `TOOL: error: …` to stderr, flushes stdout (a closed or
 * full one is a separate error), returns the exit code. If standard error could not be written,
 * only the code reports it: TSR_IO after success. */
int tsr_tool_finish(tsr_ctx *ctx, const char *tool, tsr_result result);
/* The same if an error has been printed already. */
int tsr_tool_end(const char *tool, tsr_result result);
/* Prepares a tool. A closed stdout or a file that may not grow then causes an error when it is
 * written, instead of death by SIGPIPE or SIGXFSZ, or text in a file that the tool opens. SIGTERM,
 * SIGINT, SIGHUP and SIGUSR1, unless ignored, remove the temporary files before they end the tool.
 * Call this first. */
void tsr_tool_begin(void);
/* A tsr_log_fn: writes `TOOL: warning: …` to stderr; user is the tool's name. */
void tsr_tool_log(void *user, tsr_log_level level, const char *text);

#endif
