/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of a program in Python syntax. The limits of brackets and blocks are CPython's.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_LIMITS_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_LIMITS_H

enum {
    TSR_LANGUAGE_SOURCE_MAX = 16 << 20, /* bytes of one file */
    TSR_LANGUAGE_BRACKETS_MAX = 200,    /* open at one place */
    TSR_LANGUAGE_BLOCKS_MAX = 100,      /* indented at one place */
    TSR_LANGUAGE_DEPTH_MAX = 1000,      /* of a syntax tree: terms of a sum, a chain of operators */
    TSR_LANGUAGE_PARAMETERS_MAX = 500,
    TSR_LANGUAGE_STEPS_MAX = 1 << 20,      /* of an evaluation; long values count as many */
    TSR_LANGUAGE_CALLS_MAX = 64,           /* open at the same time */
    TSR_LANGUAGE_SPECIALISATIONS_MAX = 64, /* of one function */
    TSR_LANGUAGE_ERRORS_MAX = 20,          /* reported */
};

#endif
