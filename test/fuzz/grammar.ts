/** What the grammars of requests and of answers have in common. */
import * as fc from 'fast-check'
import { weighted } from '../support/drawn.ts'
import * as words from './client-words.ts'

/** Bytes as latin1, a number of turns of the event loop, or ms below zero. */
export type Step = string | number

export interface FramedDraft {
  /** As it goes out: chunks with their sizes, if any. */
  body: string
  /** Lengths and codings. */
  framing: string[]
}

export type Mutation<Draft> = (draft: Draft, n: number) => void

export const pick = <Item>(items: readonly Item[], n: number): Item =>
  items[n % items.length] as Item

export const framingMutations: Readonly<Record<string, Mutation<FramedDraft>>> = {
  'other framing': (draft, n) => (draft.framing = [pick(words.FRAMING, n)]),
  'no framing': (draft) => (draft.framing = []),
  'chunk size': (draft, n) => {
    draft.framing = ['Transfer-Encoding: chunked']
    draft.body = `${pick(words.SIZES, n)}\r\nabc\r\n0\r\n\r\n`
  },
  chunks: (draft, n) => {
    draft.framing = ['Transfer-Encoding: chunked']
    draft.body = pick(words.CHUNK_BODIES, n)
  },
}

export const anyNumber = fc.nat(0xffffff)

/** One or two of the mutations, by name. */
export const oneOrTwo = (mutations: object) =>
  fc.array(fc.tuple(fc.constantFrom(...Object.keys(mutations)), anyNumber), {
    minLength: 1,
    maxLength: 2,
  })

/** Where bytes are cut into packets, and the step that follows. */
export const cutsAtMost = (maxLength: number) =>
  weighted(
    [2, fc.constant([])],
    [
      1,
      fc.array(fc.tuple(anyNumber, fc.constantFrom(0, 0, 1, 1, 2, 3, 5, -1, -2)), {
        maxLength,
      }),
    ],
  )

/** In two chunks. */
export function chunked(content: string): string {
  const half = content.length >> 1
  const chunk = (part: string): string =>
    part === '' ? '' : `${part.length.toString(16)}\r\n${part}\r\n`
  return `${chunk(content.slice(0, half))}${chunk(content.slice(half))}0\r\n\r\n`
}

/** In steps: bytes, and the pauses between them. A word is not cut through. */
export function cut(
  text: string,
  cuts: readonly (readonly [at: number, pause: number])[],
  word?: string,
): Step[] {
  const steps: Step[] = []
  let from = 0
  const places = cuts.map(([n, pause]) => ({ at: text === '' ? 0 : n % text.length, pause }))
  for (const { at, pause } of places.toSorted((one, other) => one.at - other.at)) {
    const wordAt = word === undefined ? -1 : text.lastIndexOf(word, at - 1)
    const where = word !== undefined && wordAt >= 0 && wordAt + word.length > at ? wordAt : at
    if (where > from) steps.push(text.slice(from, where))
    steps.push(pause)
    from = Math.max(from, where)
  }
  if (from < text.length) steps.push(text.slice(from))
  return steps
}
