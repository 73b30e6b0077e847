/** An animal as the service stores and returns it. */

export const petStatuses = ['available', 'pending', 'sold'] as const

export type PetStatus = (typeof petStatuses)[number]

export interface NewPet {
  readonly name: string
  /** An int64 as a bigint, because a number loses digits beyond 2^53. */
  readonly categoryId: bigint
  /** Absent if the client gave none; answers then omit it, and it is never null. */
  readonly status?: PetStatus
}

export interface Pet extends NewPet {
  /** An int64 that the service assigns in rising order and never twice. */
  readonly id: bigint
}

export function isPetStatus(value: unknown): value is PetStatus {
  return petStatuses.some((status) => status === value)
}

/** Writes the Pet resource as JSON text; JSON.stringify has no integers beyond 2^53. */
export function petJson({ id, name, categoryId, status }: Pet): string {
  const optional = status === undefined ? '' : `,"status":"${status}"`
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${optional}}`
}
