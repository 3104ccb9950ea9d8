// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: constants, elementwise ops, casts.

// ---- values --------------------------------------------------------------------------------

def Tessera_ConstantOp : Tessera_ValueOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at build time";
  let description = [{
    `tessera.constant dense<[1.0, 2.0]> : tensor<2xf32>`, of a static type. Equal ones become one; other
    ops fold with it where the folded bits are those that the op would give.
  }];
  let arguments = (ins ElementsAttr:$value);
  let assemblyFormat = "$value attr-dict";
}

def Tessera_AddOp : Tessera_BinaryOp<"add", "lhs + rhs"> {
  let description = [{
    Two numbers of one element type; shapes broadcast as NumPy's. Integers wrap.
  }];
}
def Tessera_SubOp : Tessera_BinaryOp<"sub", "lhs - rhs"> {
  let description = [{
    Two numbers of one element type; shapes broadcast as NumPy's. Integers wrap.
  }];
}
def Tessera_MulOp : Tessera_BinaryOp<"mul", "lhs * rhs"> {
  let description = [{
    Two numbers of one element type; shapes broadcast as NumPy's. Integers wrap.
  }];
}
def Tessera_DivOp : Tessera_BinaryOp<"div", "lhs / rhs; integers truncate toward zero"> {
  let description = [{
    Two numbers of one element type; shapes broadcast as NumPy's. Floats as IEEE 754; of integers
    x / 0 is 0, and the lowest number over -1 is itself.
  }];
}
def Tessera_MaxOp : Tessera_BinaryOp<"max", "the larger of lhs and rhs"> {
  let description = [{
    Two numbers of one element type; shapes broadcast as NumPy's. NaN if one of them is. The
    gradient goes to lhs where both are equal.
  }];
}
def Tessera_MinOp : Tessera_BinaryOp<"min", "the smaller of lhs and rhs"> {
  let description = [{
    Two numbers of one element type; shapes broadcast as NumPy's. NaN if one of them is. The
    gradient goes to lhs where both are equal.
  }];
}
def Tessera_IPowOp : Tessera_BinaryOp<"ipow", "lhs (float) to the power rhs (i64)"> {
  let description = [{
    Shapes broadcast; the result has lhs's element type. By multiplications alone; a negative exponent takes
    one over the power.
  }];
}

def Tessera_PowOp : Tessera_BinaryOp<"pow", "lhs (float) to the power rhs, as IEEE 754's pow"> {
  let description = [{
    Two floats of one element type; shapes broadcast. Signs, zeros, infinities and NaN as IEEE 754-2019,
    section 9.2.1. No gradient goes to the exponent where the base is 0.
  }];
}
def Tessera_AndOp : Tessera_BinaryOp<"and", "i1: both"> {
  let description = [{
    Of i1; shapes broadcast as NumPy's. Has no gradient.
  }];
}
def Tessera_OrOp : Tessera_BinaryOp<"or", "i1: one or both"> {
  let description = [{
    Of i1; shapes broadcast as NumPy's. Has no gradient.
  }];
}
def Tessera_XorOp : Tessera_BinaryOp<"xor", "i1: just one"> {
  let description = [{
    Of i1; shapes broadcast as NumPy's. Has no gradient.
  }];
}

def Tessera_NegOp : Tessera_UnaryOp<"neg", "-x"> {
  let description = [{
    Of signed numbers, elementwise. Integers wrap: the lowest stays as it is.
  }];
}
def Tessera_ReluOp : Tessera_UnaryOp<"relu", "max(x, 0)"> {
  let description = [{
    Of signed numbers, elementwise; NaN stays. The gradient passes where x > 0.
  }];
}
def Tessera_ExpOp : Tessera_UnaryOp<"exp", "e to the x"> {
  let description = [{
    Of floats, elementwise; 0 at -inf, inf where the result overflows.
  }];
}
def Tessera_LogOp : Tessera_UnaryOp<"log", "natural logarithm"> {
  let description = [{
    Of floats, elementwise; -inf at 0, NaN below.
  }];
}
def Tessera_TanhOp : Tessera_UnaryOp<"tanh", "hyperbolic tangent"> {
  let description = [{
    Of floats, elementwise; keeps its relative error near 0.
  }];
}
def Tessera_SqrtOp : Tessera_UnaryOp<"sqrt", "square root"> {
  let description = [{
    Of floats, elementwise; correctly rounded; NaN below 0, -0 at -0.
  }];
}
def Tessera_AbsOp : Tessera_UnaryOp<"abs", "absolute value"> {
  let description = [{
    Of signed numbers, elementwise. Integers wrap: the lowest stays as it is. No gradient at 0.
  }];
}
def Tessera_Expm1Op : Tessera_UnaryOp<"expm1", "e to the x, minus 1"> {
  let description = [{
    Of floats, elementwise; keeps its relative error near 0, where exp(x) - 1 would lose it.
  }];
}
def Tessera_Log1pOp : Tessera_UnaryOp<"log1p", "natural logarithm of 1 + x"> {
  let description = [{
    Of floats, elementwise; keeps its relative error near 0; -inf at -1, NaN below.
  }];
}
def Tessera_RsqrtOp : Tessera_UnaryOp<"rsqrt", "1 / square root"> {
  let description = [{
    Of floats, elementwise; inf at 0, NaN below, 0 at inf.
  }];
}
def Tessera_ErfOp : Tessera_UnaryOp<"erf", "error function"> {
  let description = [{
    Of floats, elementwise; 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.
  }];
}
def Tessera_SigmoidOp : Tessera_UnaryOp<"sigmoid", "1 / (1 + exp(-x))"> {
  let description = [{
    Of floats, elementwise; does not overflow on its way, and keeps its relative error in the lower tail.
  }];
}
def Tessera_SiluOp : Tessera_UnaryOp<"silu", "x / (1 + exp(-x))"> {
  let description = [{
    Of floats, elementwise; x times sigmoid(x); -0 at -inf. Elfwing et al. 2018, section 2.2.
  }];
}
def Tessera_SoftplusOp : Tessera_UnaryOp<"softplus", "log(1 + exp(x))"> {
  let description = [{
    Of floats, elementwise; does not overflow, and keeps its relative error in the lower tail. Dugas et al.
    2001, section 3.
  }];
}
def Tessera_SignOp : Tessera_UnaryOp<"sign", "-1, 1, or x where it is zero or NaN"> {
  let description = [{
    Of signed numbers, elementwise; keeps the sign of a zero. No gradient passes.
  }];
}
def Tessera_FloorOp : Tessera_UnaryOp<"floor", "the largest integer that is not above x"> {
  let description = [{
    Of floats, elementwise; exact. No gradient passes.
  }];
}
def Tessera_NotOp : Tessera_UnaryOp<"not", "i1: the other"> {
  let description = [{
    Of i1, elementwise. Has no gradient.
  }];
}

def Tessera_GeluOp : Tessera_ValueOp<"gelu", [AllTypesMatch<["input", "result"]>]> {
  let summary = "x times the normal distribution's cumulative function at x";
  let description = [{
    `approximate` is "none": x (1 + erf(x / sqrt(2))) / 2, or "tanh":
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. With `slope`, which gradients have, the former's derivative.
  }];
  let arguments = (ins Tessera_Tensor:$input,
      DefaultValuedAttr<StrAttr, "\"none\"">:$approximate, UnitAttr:$slope);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tessera_ClampOp : Tessera_ValueOp<"clamp", [AllTypesMatch<["input", "result"]>]> {
  let summary = "low where x is below it, high where x is above it, else x";
  let description = [{
    Of numbers, elementwise; low is at most high. NaN stays. An integer type must hold both bounds. The
    gradient passes where x is between the bounds or at one.
  }];
  let arguments = (ins Tessera_Tensor:$input, F64Attr:$low, F64Attr:$high);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tessera_MulAddOp : Tessera_ValueOp<"mul_add"> {
  let summary = "x y + z, rounded once where the target can";
  let description = [{
    Of f64 or f32; y and z broadcast to x's shape. What lowering makes of norms: with a z of -0 the product.
  }];
  let arguments = (ins Tessera_Tensor:$x, Tessera_Tensor:$y, Tessera_Tensor:$z);
  let assemblyFormat = [{
    $x `,` $y `,` $z attr-dict `:` type($x) `,` type($y) `,` type($z) `->` type($result)
  }];
}

def Tessera_CompareOp : Tessera_ValueOp<"compare"> {
  let summary = "i1: does lhs compare so with rhs";
  let description = [{
    Two operands of one element type, also i1; shapes broadcast. The predicate is `eq`, `ne`, `lt`, `le`,
    `gt` or `ge`; with NaN all but `ne` are false.
  }];
  let arguments = (ins Tessera_Predicate:$predicate, Tessera_Tensor:$lhs, Tessera_Tensor:$rhs);
  let assemblyFormat = [{
    $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def Tessera_WhereOp : Tessera_ValueOp<"where"> {
  let summary = "on_true where the condition holds, else on_false";
  let description = [{
    The condition is i1, the others have one element type; the three shapes broadcast. The operand that
    is not chosen has no influence, NaN or not; its gradient is 0.
  }];
  let arguments = (ins Tessera_Tensor:$condition, Tessera_Tensor:$on_true, Tessera_Tensor:$on_false);
  let assemblyFormat = [{
    $condition `,` $on_true `,` $on_false attr-dict `:`
    type($condition) `,` type($on_true) `,` type($on_false) `->` type($result)
  }];
}

def Tessera_CastOp : Tessera_ValueOp<"cast"> {
  let summary = "the same values in another element type";
  let description = [{
    Of any element type to any, elementwise. To a smaller float: rounded to nearest even. Floats to
    integers: toward zero, saturating, NaN gives 0. Integers to smaller ones wrap. To i1: is it not 0.
  }];
  let arguments = (ins Tessera_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
}
