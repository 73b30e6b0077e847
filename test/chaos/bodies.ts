/** Bodies that only one request can have: both sides know what must come. */

/** Of so many bytes, at least those that name the request. */
export function bodyOf(number: number, bytes: number): string {
  const start = `request ${number} `
  return start + String.fromCharCode(97 + (number % 26)).repeat(Math.max(0, bytes - start.length))
}

export interface Sizes {
  /** Of the request's body, 0: none. */
  readonly sends: number
  /** Of the answer's body. */
  readonly gets: number
}

export const targetOf = (number: number, { sends, gets }: Sizes): string =>
  `/v1/chaos/${number}?sends=${sends}&gets=${gets}`

export function readTarget(target: string): Sizes & { readonly number: number } {
  const [, number, sends, gets] =
    /^\/v1\/chaos\/(\d+)\?sends=(\d+)&gets=(\d+)$/.exec(target)?.map(Number) ?? []
  if (number === undefined || sends === undefined || gets === undefined)
    throw new Error(`no target of these clients: ${target}`)
  return { number, sends, gets }
}
