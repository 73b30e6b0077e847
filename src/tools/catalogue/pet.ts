/** An animal as the service takes, stores and returns it. */
import { z } from 'zod'

const petStatuses = ['available', 'pending', 'sold'] as const
export const petStatus = z.enum(petStatuses, {
  error: `status must be one of ${petStatuses.join(', ')}`,
})
type PetStatus = z.infer<typeof petStatus>

const MAX_NAME_CHARACTERS = 200
const INT64 = 'an integer in the range of int64, without fraction or exponent'

/** Says what is wrong with a member that has another type, or that is missing. */
const typeError =
  (name: string, type: string) =>
  ({ input }: { readonly input: unknown }): string =>
    input === undefined ? `${name} is required` : `${name} must be ${type}`

/**
 * Unknown members are ignored, as JSON Schema does by default, so that a client may send back an
 * animal it was given; an `id` among them has no effect. The last one of a repeated member counts,
 * as in JSON.parse (RFC 8259, section 4, leaves it open).
 */
export const newPet = z.object(
  {
    name: z
      .string({ error: typeError('name', 'a string that is not empty') })
      .min(1, 'name must be a string that is not empty')
      // JSON Schema counts code points; the first test avoids copying a huge name.
      .refine(
        (name) =>
          name.length <= 2 * MAX_NAME_CHARACTERS && Array.from(name).length <= MAX_NAME_CHARACTERS,
        `name must have at most ${MAX_NAME_CHARACTERS} characters`,
      )
      // Neither can be returned unchanged: UTF-8 has no lone surrogates, and node:sqlite before Node 24 ends a text at the first NUL.
      .refine(
        (name) => name.isWellFormed() && !name.includes('\0'),
        'name must not contain U+0000 or unpaired surrogates',
      ),
    /** An int64 as a bigint, because a number loses digits beyond 2^53. */
    categoryId: z.bigint({ error: typeError('categoryId', INT64) }),
    /** Absent if the client gave none; answers then omit it, and it is never null. */
    status: petStatus.optional(),
  },
  { error: 'it must be a JSON object' },
)
export type NewPet = Readonly<z.infer<typeof newPet>>

export interface Pet extends Omit<NewPet, 'status'> {
  /** An int64 that the service assigns in rising order and never twice. */
  readonly id: bigint
  readonly status: PetStatus | null
}

/** Writes the Pet resource as JSON text; JSON.stringify has no integers beyond 2^53. */
export function petJson({ id, name, categoryId, status }: Pet): string {
  const optional = status === null ? '' : `,"status":"${status}"`
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${optional}}`
}
