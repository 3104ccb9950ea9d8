// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: random numbers, regions.

// ---- random numbers ------------------------------------------------------------------------

// Two random ops always have two streams, even if they look equal: they are not Pure, so no pass
// merges them. Pass tessera-streams sets the stream from the call path.
class Tessera_RandomOp<string mnemonic, string what, dag args, string resultTypes>
    : Tessera_FormOp<mnemonic, resultTypes> {
  let summary = what;
  let arguments = !con(args, (ins OptionalAttr<I64Attr>:$stream));
  let results = (outs Tessera_Tensor:$result);
}
def Tessera_DropoutOp : Tessera_RandomOp<"dropout",
    "sets elements to 0 with probability `rate` and divides the others by 1 - rate; outside train entries it returns x",
    (ins Tessera_Tensor:$input, F64Attr:$rate), "Same"> {
  let description = [{
    The operand has floats; 0 <= rate < 1. The op draws from its own random stream, which its call path
    determines. Which elements become 0 does not depend on the number of ranks. Srivastava et al. 2014, section
    4, with scaling during training.
  }];
}
def Tessera_RandomUniformOp : Tessera_RandomOp<"random_uniform", "draws random samples uniformly from [low, high)",
    (ins DefaultValuedAttr<F64Attr, "0.0">:$low, DefaultValuedAttr<F64Attr, "1.0">:$high), "Declared"> {
  let description = [{
    The result has floats and the declared static type. Both bounds are finite in that type, and `low` is less
    than `high`. No result equals `high`: where rounding would give `high`, the result is the largest number of
    the type below it. The op draws from its own random stream, which its call path determines.
  }];
}
def Tessera_RandomNormalOp : Tessera_RandomOp<"random_normal", "draws random samples from a normal distribution",
    (ins DefaultValuedAttr<F64Attr, "0.0">:$mean, DefaultValuedAttr<F64Attr, "1.0">:$deviation), "Declared"> {
  let description = [{
    The result has floats and the declared static type. Both numbers are finite, and the deviation is greater
    than 0. The op applies the inverse of the cumulative distribution function, so that each element uses one
    random number. The op draws from its own random stream, which its call path determines.
  }];
}

def Tessera_SeedOp : Tessera_FormOp<"seed", "Declared", [Pure]> {
  let summary = "returns the seed of the run";
  let description = [{
    The result is a scalar i64, which is the same in all steps of a run. Random ops draw their samples with it.
  }];
  let results = (outs Tessera_Tensor:$result);
}

def Tessera_PhiloxOp : Tessera_ValueOp<"philox", "Declared"> {
  let summary = "computes Philox4x32-10 for each logical element";
  let description = [{
    The key consists of the seed's low 32 bits and `stream`. The counter consists of the step's low 32 bits, the
    low and the high 32 bits of the element's number, and `draw`. An f32 result is word 0 as a number in [0, 1)
    with 24 bits; an f64 result is words 0 (high) and 1 (low) as a number with 53 bits. With `normal` the result
    is the standard normal sample of these two words, rounded (runtime/base/random/philox.h). With `shared`,
    eight elements use one counter, whose element number is element / 8. Element e then uses 15 bits of word e %
    8 / 2 as a number in [0, 1): the low 15 bits of the word's lower half if e is even, or of its upper half if
    e is odd.
  }];
  let example = [{
func.func @example(%element: tensor<4xi64>, %step: tensor<i64>, %seed: tensor<i64>) {
  %result = tessera.philox %element, %step, %seed {stream = 7} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}
  }];
  let arguments = (ins Tessera_Tensor:$element, Tessera_Tensor:$step, Tessera_Tensor:$seed,
      I64Attr:$stream, DefaultValuedAttr<I64Attr, "0">:$draw, UnitAttr:$normal, UnitAttr:$shared);
}

// ---- checks of numbers ---------------------------------------------------------------------

def Tessera_VerifyNumericsOp : Tessera_FormOp<"verify.numerics", "Same"> {
  let summary = "checks the numbers of a value in every run: they must be finite, and within bounds";
  let description = [{
    A run in which an element is NaN, infinite, less than the first number of `bounded` or greater than the second
    one ends with exit code 14; the message names the element and the place of this op. The op computes nothing,
    and changes no bit of other values. It is not allowed in regions that compute values. With `stable`, each `exp`
    that the value is computed from must take differences to a `reduce_max`, so that it cannot overflow; the
    compiler checks this.
  }];
  let arguments = (ins Tessera_Tensor:$input, UnitAttr:$stable, OptionalAttr<ArrayAttr>:$bounded);
  let example = [{
func.func @example(%x: tensor<4xf32>) -> tensor<4xf32> {
  %result = tessera.softmax_safe %x {axis = 0} : tensor<4xf32>
  tessera.verify.numerics %result {stable, bounded = [0, 1]} : tensor<4xf32>
  return %result : tensor<4xf32>
}
  }];
}

// ---- control -------------------------------------------------------------------------------

def Tessera_YieldOp : Tessera_Op<"yield", [Pure, Terminator]> {
  let summary = "ends a region and returns its results";
  let description = [{
    This op is the last op in each region of if, while, scan, jvp, vjp and custom_derivative, and in the regions
    of checkpoints and critical stages. The enclosing op defines the number and the types of the operands.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$values);
  let form = "tessera.yield %values... : types";
  let reason = "it is written like the terminators of MLIR, func.return and scf.yield";
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Tessera_IfOp : Tessera_Op<"if", [RecursiveMemoryEffects]> {
  let summary = "runs one of two regions; a scalar i1 selects it";
  let description = [{
    Both regions have no arguments and yield values of the results' types. Their ops cannot change tensors. For
    short branches, tessera-flatten computes both regions and selects the results; the region that was not
    selected reads zeros. For other branches only the selected region runs (tessera-outline).
  }];
  let example = [{
func.func @example(%condition: tensor<i1>, %x: tensor<4xf32>) {
  %result = tessera.if %condition {
    %0 = tessera.exp %x : tensor<4xf32>
    tessera.yield %0 : tensor<4xf32>
  } else {
    tessera.yield %x : tensor<4xf32>
  } : tensor<i1> -> tensor<4xf32>
  return
}
  }];
  let arguments = (ins Tessera_Tensor:$condition);
  let regions = (region SizedRegion<1>:$then_body, SizedRegion<1>:$else_body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let form = "%results... = tessera.if %condition {...} else {...} : type -> (types)";
  let reason = "regions stand before the attributes and types, which would be far from the op otherwise";
  let assemblyFormat = [{
    $condition $then_body `else` $else_body attr-dict `:` custom<Types>(ref($condition), type($condition), type($results))
  }];
}

def Tessera_WhileOp : Tessera_Op<"while", [RecursiveMemoryEffects]> {
  let summary = "repeats the body while the condition holds, at most `limit` times";
  let description = [{
    Both regions take the carried values. The first region yields a scalar i1, the condition; the second region
    yields the next carried values.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$limit);
  let regions = (region SizedRegion<1>:$condition, SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let form = "%results... = tessera.while %inputs... {...} do {...} {limit = integer} : (types) -> (types)";
  let reason = "regions stand before the attributes and types, which would be far from the op otherwise";
  let assemblyFormat = [{
    $inputs $condition `do` $body attr-dict `:` custom<Types>(ref($inputs), type($inputs), type($results))
  }];
}

def Tessera_ScanOp : Tessera_Op<"scan", [RecursiveMemoryEffects]> {
  let summary = "runs the body for each slice of the sequences along dim 0, in order";
  let description = [{
    The first `carried` operands are carried from one iteration to the next; the other operands are sequences of
    equal length. The region takes the carried values and one slice of each sequence. It yields the next carried
    values, then one slice of each result sequence. Without sequences, `length` is the number of iterations.
    With `reverse`, the iterations begin with the last slice.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$carried,
      OptionalAttr<I64Attr>:$length, UnitAttr:$reverse);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let form = "%results... = tessera.scan %inputs... {...} {carried = integer, [length = integer], [reverse]} : (types) -> (types)";
  let reason = "regions stand before the attributes and types, which would be far from the op otherwise";
  let assemblyFormat = "$inputs $body attr-dict `:` custom<Types>(ref($inputs), type($inputs), type($results))";
}

def Tessera_JvpOp : Tessera_Op<"jvp", [RecursiveMemoryEffects]> {
  let summary = "computes a function and the product of its Jacobian and a vector, in forward mode";
  let description = [{
    The operands are the region's arguments x, then one tangent for each float operand in x, of the same type.
    The region takes x and yields y. The results are y, then one tangent for each float result in y. Values that
    the region captures from outside, including parameters, count as constants. Pass tessera-autodiff replaces
    this op with straight-line ops.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let form = "%results... = tessera.jvp %inputs... {...} : (types) -> (types)";
  let reason = "regions stand before the attributes and types, which would be far from the op otherwise";
  let assemblyFormat = "$inputs $body attr-dict `:` custom<Types>(ref($inputs), type($inputs), type($results))";
}

def Tessera_VjpOp : Tessera_Op<"vjp", [RecursiveMemoryEffects]> {
  let summary = "computes a function and the product of a vector and its Jacobian, in reverse mode";
  let description = [{
    The operands are the region's arguments x, then one cotangent for each float value that the region yields,
    of the same type. The region takes x and yields y. The results are y, then one gradient for each float
    operand in x; the gradient is zero where no gradient passes. Values that the region captures from outside,
    including parameters, get no gradient. Pass tessera-autodiff replaces this op with straight-line ops.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let form = "%results... = tessera.vjp %inputs... {...} : (types) -> (types)";
  let reason = "regions stand before the attributes and types, which would be far from the op otherwise";
  let assemblyFormat = "$inputs $body attr-dict `:` custom<Types>(ref($inputs), type($inputs), type($results))";
}

def Tessera_CustomDerivativeOp : Tessera_Op<"custom_derivative", [RecursiveMemoryEffects]> {
  let summary = "defines a function together with its derivative rules";
  let description = [{
    The first region is the function: it takes the operands x and yields the results y. The region `vjp` takes
    x, y and one cotangent for each float in y, and yields one gradient for each float in x. The region `jvp`
    takes x, y and one tangent for each float in x, and yields one tangent for each float in y. One of the two
    regions is enough if it is linear in its cotangents or tangents: the other rule is then its transpose. The
    function must not capture values that a gradient or tangent passes through. Rules may capture values; no
    gradient or tangent passes to these.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs);
  let regions = (region SizedRegion<1>:$body, AnyRegion:$vjp, AnyRegion:$jvp);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let form = "%results... = tessera.custom_derivative %inputs... {...} [vjp {...}] [jvp {...}] : (types) -> (types)";
  let reason = "regions stand before the attributes and types, which would be far from the op otherwise";
  let assemblyFormat = [{
    $inputs $body (`vjp` $vjp^)? (`jvp` $jvp^)? attr-dict `:` custom<Types>(ref($inputs), type($inputs), type($results))
  }];
}

def Tessera_LoopOp : Tessera_Op<"loop", [Pure]> {
  let summary = "runs a loop or a branch whose bodies are functions";
  let description = [{
    Pass tessera-outline replaces scan, while and if with this op. `bodies` names functions with the attribute
    `tessera.body`. Each function takes the arguments of the region that it replaces, then the values that the
    region captured from outside, the captures:

    "scan"   [body] takes the carried values, one slice of each sequence and the captures; it returns the next
             carried values, then slices.
    "while"  [condition, body] both take the carried values and the captures; the condition returns a scalar i1,
             and the body returns the next carried values.
    "if"     [then, else] both take the captures. The first operand of the op is the condition, a scalar i1.

    The operands are the condition (of "if"), the `carried` values, the `sequences` and the captures. `times` is
    the number of iterations of a scan, and the largest number of iterations of a while.
  }];
  let example = [{
func.func private @body(%carried: tensor<6xf32>, %row: tensor<6xf32>) -> tensor<6xf32> attributes {tessera.body} {
  %0 = tessera.add %carried, %row : tensor<6xf32>
  return %0 : tensor<6xf32>
}
func.func @example(%sum: tensor<6xf32>, %rows: tensor<4x6xf32>) {
  %result = tessera.loop "scan"(%sum, %rows) {bodies = [@body], carried = 1, sequences = 1, times = 4} : (tensor<6xf32>, tensor<4x6xf32>) -> tensor<6xf32>
  return
}
  }];
  let arguments = (ins StrAttr:$kind, Variadic<Tessera_Tensor>:$inputs, ArrayAttr:$bodies,
      DefaultValuedAttr<I64Attr, "0">:$carried, DefaultValuedAttr<I64Attr, "0">:$sequences,
      DefaultValuedAttr<I64Attr, "0">:$times, UnitAttr:$reverse);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let form = "%results... = tessera.loop \"kind\"(%inputs...) {bodies = [@function, ...], [carried = integer], [sequences = integer], [times = integer], [reverse]} : (types) -> (types)";
  let reason = "it is written like a call, with its kind as the name";
  let assemblyFormat = "$kind `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
}
