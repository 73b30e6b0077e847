/** The animal as the service keeps and shows it. */

export const petStatuses = ['available', 'pending', 'sold'] as const

export type PetStatus = (typeof petStatuses)[number]

export interface NewPet {
  readonly name: string
  /** int64. A bigint, because a number loses digits beyond 2^53. */
  readonly categoryId: bigint
  /** Absent when the client gave none: it then stays absent in every answer, and is never null. */
  readonly status?: PetStatus
}

export interface Pet extends NewPet {
  /** int64, assigned by the service in rising order and never used twice. */
  readonly id: bigint
}

export function isPetStatus(value: unknown): value is PetStatus {
  return petStatuses.some((status) => status === value)
}

/** The Pet resource as JSON text. Put together by hand, because JSON.stringify has no integers beyond 2^53. */
export function petJson({ id, name, categoryId, status }: Pet): string {
  const optional = status === undefined ? '' : `,"status":"${status}"`
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${optional}}`
}
