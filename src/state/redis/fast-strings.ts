/** Removes a cost that loading ioredis adds to every string method of the process. */

/** More than V8 needs before it gathers feedback on a function. */
const LOOKUPS = 2_000

/**
 * ioredis declares a class that extends String. V8 then keeps String.prototype in its slow form, and compiled code looks up
 * every charCodeAt, slice and test anew: 3 % of the CPU of a forwarded request. A look-up on a String object (never one on a
 * plain string) makes V8 rebuild the fast form. No program can see the difference. Must be called once, after the library was
 * loaded.
 */
export function restoreFastStrings(): void {
  const wrapped = Object('x') as { readonly length: number }
  for (let at = 0; at < LOOKUPS; at++) lengthOf(wrapped)
}

const lengthOf = (text: { readonly length: number }): number => text.length
