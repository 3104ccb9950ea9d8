// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: constants, elementwise ops, casts.

// ---- values --------------------------------------------------------------------------------

def Tessera_ConstantOp : Tessera_OwnValueOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "returns a tensor that is known at build time";
  let description = [{
    `tessera.constant dense<[1.0, 2.0]> : tensor<2xf32>` has a static type. Equal constants become one constant.
    Other ops fold with constants where the folded bits equal the bits that the op would compute.
  }];
  let arguments = (ins ElementsAttr:$value);
  let form = "%result = tessera.constant dense<...> : type";
  let reason = "the value has the type of the result";
  let assemblyFormat = "$value attr-dict";
}

def Tessera_AddOp : Tessera_BinaryOp<"add", "adds: lhs + rhs"> {
  let description = [{
    Both operands have numbers of the same element type. Their shapes broadcast like NumPy's. Integers wrap on
    overflow.
  }];
}
def Tessera_SubOp : Tessera_BinaryOp<"sub", "subtracts: lhs - rhs"> {
  let description = [{
    Both operands have numbers of the same element type. Their shapes broadcast like NumPy's. Integers wrap on
    overflow.
  }];
}
def Tessera_MulOp : Tessera_BinaryOp<"mul", "multiplies: lhs * rhs"> {
  let description = [{
    Both operands have numbers of the same element type. Their shapes broadcast like NumPy's. Integers wrap on
    overflow.
  }];
}
def Tessera_DivOp : Tessera_BinaryOp<"div", "divides: lhs / rhs; integers truncate toward zero"> {
  let description = [{
    Both operands have numbers of the same element type. Their shapes broadcast like NumPy's. Floats follow
    IEEE 754. For integers, x / 0 is 0, and the lowest number divided by -1 is the lowest number.
  }];
}
def Tessera_MaxOp : Tessera_BinaryOp<"max", "returns the larger of lhs and rhs"> {
  let description = [{
    Both operands have numbers of the same element type. Their shapes broadcast like NumPy's. The result is NaN
    if an operand is NaN. If both operands are equal, the gradient goes to lhs.
  }];
}
def Tessera_MinOp : Tessera_BinaryOp<"min", "returns the smaller of lhs and rhs"> {
  let description = [{
    Both operands have numbers of the same element type. Their shapes broadcast like NumPy's. The result is NaN
    if an operand is NaN. If both operands are equal, the gradient goes to lhs.
  }];
}
def Tessera_IPowOp : Tessera_BinaryOp<"ipow", "raises lhs (float) to the power rhs (i64)"> {
  let description = [{
    The shapes broadcast, and the result has the element type of lhs. The op only multiplies; for a negative
    exponent it returns 1 divided by the power.
  }];
}

def Tessera_PowOp : Tessera_BinaryOp<"pow", "raises lhs (float) to the power rhs, like pow of IEEE 754"> {
  let description = [{
    Both operands have floats of the same element type. Their shapes broadcast. Signs, zeros, infinities and NaN
    follow IEEE 754-2019, section 9.2.1. Where the base is 0, the exponent gets no gradient.
  }];
}
def Tessera_AndOp : Tessera_BinaryOp<"and", "returns the bits that both lhs and rhs have"> {
  let description = [{
    Both operands have i1 or integers of the same element type. Their shapes broadcast like NumPy's. For i1 the
    result is true where both are true. This op has no gradient.
  }];
}
def Tessera_OrOp : Tessera_BinaryOp<"or", "returns the bits that lhs or rhs or both have"> {
  let description = [{
    Both operands have i1 or integers of the same element type. Their shapes broadcast like NumPy's. For i1 the
    result is true where one or both are true. This op has no gradient.
  }];
}
def Tessera_XorOp : Tessera_BinaryOp<"xor", "returns the bits that exactly one of lhs and rhs has"> {
  let description = [{
    Both operands have i1 or integers of the same element type. Their shapes broadcast like NumPy's. For i1 the
    result is true where exactly one is true. This op has no gradient.
  }];
}
def Tessera_ShiftLeftOp : Tessera_BinaryOp<"shift_left", "shifts the bits of lhs left by rhs places"> {
  let description = [{
    Both operands have integers of the same element type. Their shapes broadcast like NumPy's. Zeros come in from
    the right. If rhs is negative or at least the width of the type, the result is 0. This op has no gradient.
  }];
}
def Tessera_ShiftRightOp : Tessera_BinaryOp<"shift_right", "shifts the bits of lhs right by rhs places"> {
  let description = [{
    Both operands have integers of the same element type. Their shapes broadcast like NumPy's. Copies of the sign
    come in from the left; zeros, if the type is unsigned. If rhs is negative or at least the width of the type,
    the result is -1 where lhs is negative, and 0 elsewhere. This op has no gradient.
  }];
}

def Tessera_NegOp : Tessera_UnaryOp<"neg", "negates: -x"> {
  let description = [{
    This elementwise op takes signed numbers. Integers wrap: the lowest number stays the same.
  }];
}
def Tessera_ReluOp : Tessera_UnaryOp<"relu", "returns max(x, 0)"> {
  let description = [{
    This elementwise op takes signed numbers. NaN stays NaN. The gradient passes where x > 0.
  }];
}
def Tessera_ExpOp : Tessera_UnaryOp<"exp", "returns e to the power x"> {
  let description = [{
    This elementwise op takes floats. The result is 0 for -inf, and inf where it overflows.
  }];
}
def Tessera_LogOp : Tessera_UnaryOp<"log", "returns the natural logarithm of x"> {
  let description = [{
    This elementwise op takes floats. The result is -inf for 0 and NaN for negative numbers.
  }];
}
def Tessera_TanhOp : Tessera_UnaryOp<"tanh", "returns the hyperbolic tangent of x"> {
  let description = [{
    This elementwise op takes floats. The relative error stays small near 0.
  }];
}
def Tessera_SqrtOp : Tessera_UnaryOp<"sqrt", "returns the square root of x"> {
  let description = [{
    This elementwise op takes floats. The result is correctly rounded. It is NaN for negative numbers and -0 for
    -0.
  }];
}
def Tessera_AbsOp : Tessera_UnaryOp<"abs", "returns the absolute value of x"> {
  let description = [{
    This elementwise op takes signed numbers. Integers wrap: the lowest number stays the same. The gradient at 0
    is 0.
  }];
}
def Tessera_Expm1Op : Tessera_UnaryOp<"expm1", "returns e to the power x, minus 1"> {
  let description = [{
    This elementwise op takes floats. The relative error stays small near 0, where exp(x) - 1 loses digits.
  }];
}
def Tessera_Log1pOp : Tessera_UnaryOp<"log1p", "returns the natural logarithm of 1 + x"> {
  let description = [{
    This elementwise op takes floats. The relative error stays small near 0. The result is -inf for -1 and NaN
    for smaller numbers.
  }];
}
def Tessera_RsqrtOp : Tessera_UnaryOp<"rsqrt", "returns 1 divided by the square root of x"> {
  let description = [{
    This elementwise op takes floats. The result is inf for 0, NaN for negative numbers and 0 for inf.
  }];
}
def Tessera_ErfOp : Tessera_UnaryOp<"erf", "returns the error function of x"> {
  let description = [{
    This elementwise op takes floats. It computes 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
  }];
}
def Tessera_SinOp : Tessera_UnaryOp<"sin", "returns the sine of x"> {
  let description = [{
    This elementwise op takes floats; x is in radians. Angles of any size are reduced without error. The result
    is NaN for infinities.
  }];
}
def Tessera_CosOp : Tessera_UnaryOp<"cos", "returns the cosine of x"> {
  let description = [{
    This elementwise op takes floats; x is in radians. Angles of any size are reduced without error. The result
    is NaN for infinities.
  }];
}
def Tessera_TanOp : Tessera_UnaryOp<"tan", "returns the tangent of x"> {
  let description = [{
    This elementwise op takes floats; x is in radians. Angles of any size are reduced without error. The result
    is NaN for infinities.
  }];
}
def Tessera_AsinOp : Tessera_UnaryOp<"asin", "returns the angle from -pi/2 to pi/2 whose sine is x"> {
  let description = [{
    This elementwise op takes floats. The result is NaN where |x| > 1. The gradient is infinite at -1 and 1.
  }];
}
def Tessera_AcosOp : Tessera_UnaryOp<"acos", "returns the angle from 0 to pi whose cosine is x"> {
  let description = [{
    This elementwise op takes floats. The result is NaN where |x| > 1. The gradient is infinite at -1 and 1.
  }];
}
def Tessera_AtanOp : Tessera_UnaryOp<"atan", "returns the angle from -pi/2 to pi/2 whose tangent is x"> {
  let description = [{
    This elementwise op takes floats. For infinities the result is pi/2 with the sign of x.
  }];
}
def Tessera_SigmoidOp : Tessera_UnaryOp<"sigmoid", "returns 1 / (1 + exp(-x))"> {
  let description = [{
    This elementwise op takes floats. Intermediate results do not overflow, and the relative error stays small
    in the lower tail.
  }];
}
def Tessera_SiluOp : Tessera_UnaryOp<"silu", "returns x / (1 + exp(-x))"> {
  let description = [{
    This elementwise op takes floats and computes x times sigmoid(x). The result is -0 for -inf. Elfwing et al.
    2018, section 2.2.
  }];
}
def Tessera_SoftplusOp : Tessera_UnaryOp<"softplus", "returns log(1 + exp(x))"> {
  let description = [{
    This elementwise op takes floats. Intermediate results do not overflow, and the relative error stays small
    in the lower tail. Dugas et al. 2001, section 3.
  }];
}
def Tessera_SoftsignOp : Tessera_UnaryOp<"softsign", "returns x / (1 + |x|)"> {
  let description = [{
    This elementwise op takes floats. The result is between -1 and 1, and NaN for infinities; the gradient there
    is 0. Glorot and Bengio 2010, section 3.3.
  }];
}
def Tessera_SignOp : Tessera_UnaryOp<"sign", "returns -1 or 1, or x where x is zero or NaN"> {
  let description = [{
    This elementwise op takes signed numbers. A zero keeps its sign. No gradient passes through this op.
  }];
}
def Tessera_FloorOp : Tessera_UnaryOp<"floor", "returns the largest integer that is not greater than x"> {
  let description = [{
    This elementwise op takes floats. The result is exact. No gradient passes through this op.
  }];
}
def Tessera_CeilOp : Tessera_UnaryOp<"ceil", "returns the smallest integer that is not less than x"> {
  let description = [{
    This elementwise op takes floats. The result is exact. It is -0 for numbers between -1 and 0. No gradient
    passes through this op.
  }];
}
def Tessera_RoundOp : Tessera_UnaryOp<"round", "returns the integer nearest to x, ties to even"> {
  let description = [{
    This elementwise op takes floats. The result is exact. A result of 0 has the sign of x. No gradient passes
    through this op.
  }];
}
def Tessera_NotOp : Tessera_UnaryOp<"not", "inverts all bits"> {
  let description = [{
    This elementwise op takes i1 or integers; for signed integers the result is -1 - x. This op has no gradient.
  }];
}

def Tessera_GeluOp : Tessera_ValueOp<"gelu", "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = "multiplies x by the normal distribution's cumulative function at x";
  let description = [{
    `approximate` is "none" for x (1 + erf(x / sqrt(2))) / 2, or "tanh" for x (1 + tanh(sqrt(2 / pi) (x +
    0.044715 x^3))) / 2. With `slope` the result is the derivative of the first formula; gradients use this
    form.
  }];
  let arguments = (ins Tessera_Tensor:$input,
      DefaultValuedAttr<StrAttr, "\"none\"">:$approximate, UnitAttr:$slope);
}

def Tessera_CeluOp : Tessera_ValueOp<"celu", "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = "returns x where x > 0, and alpha (exp(x / alpha) - 1) elsewhere";
  let description = [{
    This elementwise op takes floats; `alpha` is positive. The relative error stays small near 0. The slope at 0
    is 1. Barron 2017, equation 2.
  }];
  let arguments = (ins Tessera_Tensor:$input, DefaultValuedAttr<F64Attr, "1.0">:$alpha);
}

def Tessera_ClampOp : Tessera_ValueOp<"clamp", "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = "limits x to the range from low to high";
  let description = [{
    This elementwise op takes numbers; `low` is at most `high`. NaN stays NaN. If the type is an integer type,
    it must be able to represent both bounds. The gradient passes where x is between the bounds or equal to one
    of them.
  }];
  let arguments = (ins Tessera_Tensor:$input, F64Attr:$low, F64Attr:$high);
}

def Tessera_MulAddOp : Tessera_ValueOp<"mul_add", "Inferred"> {
  let summary = "returns x y + z, rounded once where the target has an instruction for this";
  let description = [{
    The operands have f64 or f32; y and z broadcast to the shape of x. The lowering of norms creates this op. If
    z is -0, the result is the product.
  }];
  let arguments = (ins Tessera_Tensor:$x, Tessera_Tensor:$y, Tessera_Tensor:$z);
}

def Tessera_CompareOp : Tessera_ValueOp<"compare", "Inferred", [], "predicate"> {
  let summary = "compares lhs with rhs and returns i1";
  let description = [{
    Both operands have the same element type, which may be i1. Their shapes broadcast. The predicate is `eq`,
    `ne`, `lt`, `le`, `gt` or `ge`. If an operand is NaN, `ne` is true and all others are false.
  }];
  let arguments = (ins Tessera_Predicate:$predicate, Tessera_Tensor:$lhs, Tessera_Tensor:$rhs);
}

def Tessera_WhereOp : Tessera_ValueOp<"where", "Inferred"> {
  let summary = "returns on_true where the condition is true, and on_false elsewhere";
  let description = [{
    The condition is i1; the other two operands have the same element type. The three shapes broadcast. The
    operand that is not selected has no influence on the result, even if it is NaN, and its gradient is 0.
  }];
  let arguments = (ins Tessera_Tensor:$condition, Tessera_Tensor:$on_true, Tessera_Tensor:$on_false);
}

def Tessera_CastOp : Tessera_ValueOp<"cast", "Declared"> {
  let summary = "converts values to another element type";
  let description = [{
    This elementwise op converts any element type to any other. Floats that become smaller floats are rounded to
    nearest, ties to even. Floats that become integers are rounded toward zero and saturate; NaN becomes 0.
    Integers that become smaller integers wrap. A value that becomes i1 is true if it is not 0. `rounding` is
    "nearest_even", "toward_zero", "up" or "down", for floats that become integers, or floats of at most 16 bits. With
    `saturate`, numbers beyond the largest one of a float of at most 16 bits, or of an integer, become the largest one.
    compiler/graph/NUMERICS.md defines the results.
  }];
  let arguments = (ins Tessera_Tensor:$input, OptionalAttr<StrAttr>:$rounding, UnitAttr:$saturate);
}

def Tessera_BitcastOp : Tessera_ValueOp<"bitcast", "Declared"> {
  let summary = "returns the same bits as another element type of the same width";
  let description = [{
    This elementwise op takes floats and integers, and its result has floats or integers of as many bits: f32 can
    become i32 or ui32, for example. NaN keeps its bits if the operand is an argument, a parameter or a constant;
    otherwise the sign and the payload of a NaN are not specified. This op has no gradient.
  }];
  let arguments = (ins Tessera_Tensor:$input);
}
