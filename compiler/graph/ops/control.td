// SPDX-License-Identifier: Apache-2.0
//
// Part of graph.td: random numbers, regions.

// ---- random numbers ------------------------------------------------------------------------

// Two random ops always have two streams, even if they look equal: they are not Pure, so no pass
// merges them. Pass tessera-streams sets the stream from the call path.
class Tessera_RandomOp<string mnemonic, string what, dag args> : Tessera_Op<mnemonic> {
  let summary = what;
  let arguments = !con(args, (ins OptionalAttr<I64Attr>:$stream));
  let results = (outs Tessera_Tensor:$result);
}
def Tessera_DropoutOp : Tessera_RandomOp<"dropout",
    "0 with probability `rate`, else x / (1 - rate); x itself outside train entries",
    (ins Tessera_Tensor:$input, F64Attr:$rate)> {
  let description = [{
    Of floats; 0 <= rate < 1. Draws from a stream of its own, named by its call path; the same elements
    fall whatever the number of ranks. Srivastava et al. 2014, section 4, scaled in training.
  }];
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}
def Tessera_RandomUniformOp : Tessera_RandomOp<"random_uniform", "drawn uniformly from [low, high)",
    (ins DefaultValuedAttr<F64Attr, "0.0">:$low, DefaultValuedAttr<F64Attr, "1.0">:$high)> {
  let description = [{
    Floats of a static type, as declared; both bounds finite in it, low below high. No result is `high`: one
    that rounding would bring there is the largest number of the type below it. Draws from a stream of its
    own, named by its call path.
  }];
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Tessera_RandomNormalOp : Tessera_RandomOp<"random_normal", "drawn from a normal distribution",
    (ins DefaultValuedAttr<F64Attr, "0.0">:$mean, DefaultValuedAttr<F64Attr, "1.0">:$deviation)> {
  let description = [{
    Floats of a static type, as declared; both numbers finite, the deviation above 0. By the inverse of the cumulative function, so
    that an element needs one random number. Draws from a stream of its own, named by its call path.
  }];
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tessera_SeedOp : Tessera_Op<"seed", [Pure]> {
  let summary = "the seed of the run";
  let description = [{
    A scalar i64, the same in every step of a run, which the random ops draw with.
  }];
  let results = (outs Tessera_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tessera_PhiloxOp : Tessera_ValueOp<"philox"> {
  let summary = "elementwise: Philox4x32-10 at each logical element";
  let description = [{
    Key: the seed's low 32 bits, `stream`. Counter: the step's low 32 bits, the element's low and high
    32 bits, `draw`. f32: word 0 in [0, 1) with 24 bits; f64: words 0 (high) and 1 (low), 53 bits; or,
    with `normal`, the standard normal of those two words, rounded (runtime/base/random/philox.h). With `shared`
    eight elements have one counter, whose element is element / 8: element e has, in [0, 1), 15 bits of word
    e % 8 / 2, the lower ones of its lower half where e is even, else of its upper half.
  }];
  let arguments = (ins Tessera_Tensor:$element, Tessera_Tensor:$step, Tessera_Tensor:$seed,
      I64Attr:$stream, DefaultValuedAttr<I64Attr, "0">:$draw, UnitAttr:$normal, UnitAttr:$shared);
  let assemblyFormat = [{
    $element `,` $step `,` $seed attr-dict `:` type($element) `,` type($step) `,` type($seed)
    `->` type($result)
  }];
}

// ---- control -------------------------------------------------------------------------------

def Tessera_YieldOp : Tessera_Op<"yield", [Pure, Terminator]> {
  let summary = "results of a region";
  let description = [{
    Stands last in the regions of if, while, scan, jvp, vjp and custom_derivative, and in those of checkpoints
    and critical stages; operands as the op around it asks.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Tessera_IfOp : Tessera_Op<"if", [RecursiveMemoryEffects]> {
  let summary = "one of two regions, by a scalar i1";
  let description = [{
    Both regions have no arguments and yield values of the results' types, which are the same on both
    sides. Regions hold ops that change no tensor. Of short branches tessera-flatten computes both and
    picks, and the one not taken sees zeros; of others one is run (tessera-outline).
  }];
  let arguments = (ins Tessera_Tensor:$condition);
  let regions = (region SizedRegion<1>:$then_body, SizedRegion<1>:$else_body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = [{
    $condition $then_body `else` $else_body attr-dict `:` type($condition) `->` type($results)
  }];
}

def Tessera_WhileOp : Tessera_Op<"while", [RecursiveMemoryEffects]> {
  let summary = "the body again and again while the condition holds, at most `limit` times";
  let description = [{
    Both regions take the carried values; the first yields a scalar i1, the second the next values.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$limit);
  let regions = (region SizedRegion<1>:$condition, SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = [{
    $inputs $condition `do` $body attr-dict `:` type($inputs) `->` type($results)
  }];
}

def Tessera_ScanOp : Tessera_Op<"scan", [RecursiveMemoryEffects]> {
  let summary = "the body for each slice of the sequences along dim 0, in order";
  let description = [{
    The first `carried` operands are carried from one iteration to the next, the others are sequences
    of equal length. The region takes the carried values and one slice of each sequence; it yields the
    next carried values, then one slice of each result sequence. Without sequences `length` says how
    often. With `reverse` the last slice comes first.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs, I64Attr:$carried,
      OptionalAttr<I64Attr>:$length, UnitAttr:$reverse);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = "$inputs $body attr-dict `:` type($inputs) `->` type($results)";
}

def Tessera_JvpOp : Tessera_Op<"jvp", [RecursiveMemoryEffects]> {
  let summary = "a function and how it changes along a direction: its Jacobian times a vector, in forward mode";
  let description = [{
    Operands: what the region takes, x, then a tangent for each float among them, of its type. The region takes x
    and yields y. Results: y, then a tangent for each float among them. What the region reads from outside stays as
    it is, parameters too. Pass tessera-autodiff makes it straight-line.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = "$inputs $body attr-dict `:` type($inputs) `->` type($results)";
}

def Tessera_VjpOp : Tessera_Op<"vjp", [RecursiveMemoryEffects]> {
  let summary = "a function and its gradients: a vector times its Jacobian, in reverse mode";
  let description = [{
    Operands: what the region takes, x, then a cotangent for each float that it yields, of its type. The region takes
    x and yields y. Results: y, then a gradient for each float of x, zeros where none passes. What the region reads
    from outside gets none, parameters neither. Pass tessera-autodiff makes it straight-line.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = "$inputs $body attr-dict `:` type($inputs) `->` type($results)";
}

def Tessera_CustomDerivativeOp : Tessera_Op<"custom_derivative", [RecursiveMemoryEffects]> {
  let summary = "a function with derivatives of its own";
  let description = [{
    The first region is the function: it takes x, the operands, and yields y, the results. `vjp` takes x, y and a
    cotangent for each float of y, and yields a gradient for each float of x; `jvp` takes x, y and a tangent for each
    float of x, and yields a tangent for each float of y. One of them is enough: the other is its transpose, if it
    is linear in its cotangents or tangents. The function must not read from outside what gradients or tangents pass
    through; rules may, and nothing passes to it.
  }];
  let arguments = (ins Variadic<Tessera_Tensor>:$inputs);
  let regions = (region SizedRegion<1>:$body, AnyRegion:$vjp, AnyRegion:$jvp);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = [{
    $inputs $body (`vjp` $vjp^)? (`jvp` $jvp^)? attr-dict `:` type($inputs) `->` type($results)
  }];
}

def Tessera_LoopOp : Tessera_Op<"loop", [Pure]> {
  let summary = "a loop or branch that stays one: its bodies are functions";
  let description = [{
    What pass tessera-outline makes of scan, while and if. `bodies` names functions with `tessera.body`, which take what
    the bodies took and behind it what they read from outside, `captures`:

    "scan"   [body], takes carried values, one slice of each sequence, captures; gives the next carried values, slices
    "while"  [condition, body], take carried values, captures; give a scalar i1, and the next carried values
    "if"     [then, else], take captures. The first operand is the condition, a scalar i1

    Operands: (the condition), `carried` values, `sequences`, captures. `times`: iterations of a scan, the most of a while.
  }];
  let arguments = (ins StrAttr:$kind, Variadic<Tessera_Tensor>:$inputs, ArrayAttr:$bodies,
      DefaultValuedAttr<I64Attr, "0">:$carried, DefaultValuedAttr<I64Attr, "0">:$sequences,
      DefaultValuedAttr<I64Attr, "0">:$times, UnitAttr:$reverse);
  let results = (outs Variadic<Tessera_Tensor>:$results);
  let assemblyFormat = "$kind `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
}
