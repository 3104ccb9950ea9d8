/* SPDX-License-Identifier: Apache-2.0
 *
 * How an expression can call an op: read from the form of its declaration, which pages and errors
 * show: "%result = tessera.sum %input {axes = [integer, ...]} : type [-> type]".
 */
#ifndef TSR_COMPILER_ONNX_FORM_H
#define TSR_COMPILER_ONNX_FORM_H

#include <stdbool.h>
#include <stddef.h>

typedef enum tsr_form_kind {
    TSR_FORM_FLAG,
    TSR_FORM_INTEGER,
    TSR_FORM_INTEGERS,
    TSR_FORM_NUMBER,
    TSR_FORM_BOOL,
    TSR_FORM_TEXT,
    TSR_FORM_OTHER, /* an expression cannot give it */
} tsr_form_kind;

enum { TSR_FORM_ATTRIBUTES_MAX = 16, TSR_FORM_NAME_MAX = 47 };

typedef struct tsr_form_attribute {
    char name[TSR_FORM_NAME_MAX + 1];
    tsr_form_kind kind;
    bool is_optional;
} tsr_form_attribute;

typedef struct tsr_form {
    size_t operand_min, operand_max; /* SIZE_MAX: any number */
    bool has_value;                  /* one result, and no region */
    bool declares_type;              /* the type of the result does not follow from the operands */
    size_t attribute_count;
    tsr_form_attribute attributes[TSR_FORM_ATTRIBUTES_MAX];
} tsr_form;

void tsr_form_read(const char *text, tsr_form *out_form);
const tsr_form_attribute *tsr_form_find_attribute(const tsr_form *form, const char *name);
const char *tsr_form_kind_text(tsr_form_kind kind); /* "an integer": for messages */

#endif
