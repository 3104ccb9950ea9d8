/* SPDX-License-Identifier: Apache-2.0
 *
 * What is linked to a program or model: the texts that the user gives.
 */
#ifndef TSR_COMPILER_ONNX_LINKS_H
#define TSR_COMPILER_ONNX_LINKS_H

#include <stddef.h>

/* A file: an ONNX model (".onnx"), which becomes the function `name` that the program declares; or
 * a program, whose functions are added. */
typedef struct tsr_link {
    const char *name, *path;
} tsr_link;

/* A custom op of models, which calls a function of the program. */
typedef struct tsr_custom_op {
    const char *domain, *op, *function;
} tsr_custom_op;

/* Everything is borrowed. */
typedef struct tsr_links {
    const tsr_link *links;
    const tsr_custom_op *ops;
    size_t link_count, op_count;
} tsr_links;

#endif
