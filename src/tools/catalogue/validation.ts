/** Turns what a client sent into parameters and fields, or into a fault that names each wrong one. */
import type { Fault } from './answer.ts'
import { parseInt64 } from './int64.ts'
import { isPetStatus, petStatuses, type NewPet, type PetStatus } from './pet.ts'

const maxNameCharacters = 200
const maxPageSize = 100
const defaultPageSize = 20

export interface PageQuery {
  /** Animals on the page, 1..100. */
  readonly limit: number
  readonly status: PetStatus | undefined
  /** Only animals with a greater id; 0 for the first page, since ids begin at 1. */
  readonly afterId: bigint
}

const faultOf = (fault: Fault['fault'], problems: readonly string[]): Fault => ({
  fault,
  detail: problems.join('; '),
})

/** Unknown parameters are ignored, so that a cache buster or a newer client does no harm. */
export function parsePageQuery(query: string): PageQuery | Fault {
  const parameters = new URLSearchParams(query)
  const problems: string[] = []
  for (const name of ['limit', 'status', 'cursor']) {
    if (parameters.getAll(name).length > 1) problems.push(`${name} must be given once`)
  }
  const limit = parsePageSize(parameters.get('limit'))
  if (limit === undefined) problems.push(`limit must be an integer from 1 to ${maxPageSize}`)
  const status = parameters.get('status') ?? undefined
  if (status !== undefined && !isPetStatus(status)) problems.push(statusProblem)
  const afterId = parseCursor(parameters.get('cursor'))
  if (afterId === undefined) {
    problems.push('cursor must be taken unchanged from the Link header of the page before')
  }
  if (problems.length > 0 || limit === undefined || afterId === undefined) {
    return faultOf('invalid_parameter', problems)
  }
  return { limit, status: isPetStatus(status) ? status : undefined, afterId }
}

const statusProblem = `status must be one of ${petStatuses.join(', ')}`

function parsePageSize(text: string | null): number | undefined {
  if (text === null) return defaultPageSize
  if (!/^[1-9]\d{0,2}$/.test(text)) return undefined
  const size = Number(text)
  return size <= maxPageSize ? size : undefined
}

/** The cursor of the next page, opaque to clients: the base64url form of the last id. */
export function cursorAfter(id: bigint): string {
  return Buffer.from(String(id)).toString('base64url')
}

function parseCursor(text: string | null): bigint | undefined {
  if (text === null) return 0n
  const id = parseInt64(Buffer.from(text, 'base64url').toString('latin1'))
  // Buffer skips what is not base64url; only a cursor that this service could have written is accepted.
  return id !== undefined && id > 0n && cursorAfter(id) === text ? id : undefined
}

export function parsePetId(text: string): bigint | Fault {
  return (
    parseInt64(text) ??
    faultOf('invalid_parameter', ['petId must be an integer in the range of int64'])
  )
}

/**
 * Unknown members are ignored, as JSON Schema does by default, so that a client may send back an
 * animal it was given; an `id` among them has no effect. The last one of a repeated member counts,
 * as in JSON.parse (RFC 8259, section 4, leaves it open).
 */
export function parseNewPet(body: unknown): NewPet | Fault {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return faultOf('invalid_body', ['it must be a JSON object'])
  }
  const { name, categoryId, status } = body as Record<string, unknown>
  const problems = [
    nameProblem(name),
    typeof categoryId === 'bigint' ? undefined : categoryIdProblem(categoryId),
    status === undefined || isPetStatus(status) ? undefined : statusProblem,
  ].filter((problem) => problem !== undefined)
  if (problems.length > 0 || typeof name !== 'string' || typeof categoryId !== 'bigint') {
    return faultOf('invalid_body', problems)
  }
  return isPetStatus(status) ? { name, categoryId, status } : { name, categoryId }
}

function nameProblem(name: unknown): string | undefined {
  if (name === undefined) return 'name is required'
  if (typeof name !== 'string' || name === '') return 'name must be a string that is not empty'
  // JSON Schema counts code points; the first test avoids copying a huge name.
  if (name.length > 2 * maxNameCharacters || Array.from(name).length > maxNameCharacters) {
    return `name must have at most ${maxNameCharacters} characters`
  }
  // Neither can be returned unchanged: UTF-8 has no lone surrogates, and node:sqlite before
  // Node 24 ends a text at the first NUL.
  if (!name.isWellFormed() || name.includes('\0')) {
    return 'name must not contain U+0000 or unpaired surrogates'
  }
  return undefined
}

function categoryIdProblem(categoryId: unknown): string {
  return categoryId === undefined
    ? 'categoryId is required'
    : 'categoryId must be an integer in the range of int64, without fraction or exponent'
}
