/* SPDX-License-Identifier: Apache-2.0
 *
 * The maximum sizes of a source. Each limit has its diagnostic, and a module in
 * tests/compiler/rejected/ that exceeds it by one.
 */
#ifndef TSR_COMPILER_SOURCE_LIMITS_H
#define TSR_COMPILER_SOURCE_LIMITS_H

enum {
    TSR_MLIR_NESTING_MAX = 256,    /* brackets open at once in a text; nested regions */
    TSR_MLIR_STRING_MAX = 1 << 24, /* bytes of a string in a text, unless it is hexadecimal data */
    TSR_MLIR_ELEMENTS_MAX = 1 << 24,    /* commas between two brackets */
    TSR_MLIR_SYMBOLS_MAX = 65536,       /* functions, groups and kernels of a module */
    TSR_MLIR_CALLED_OPS_MAX = 1 << 22,  /* ops of a function and of all functions that it calls */
    TSR_MLIR_BYTECODE_SECONDS_MAX = 10, /* to read a MiB of bytecode */
    TSR_MLIR_BYTECODE_MEMORY_MAX = 256, /* bytes of memory per byte of bytecode, beyond 1 GiB */
};

#endif
