import { it } from 'vitest'
import { jsonAgrees } from './plain-form.ts'

it(
  'what is taken in plain form is what is exactly read',
  () => jsonAgrees({ numRuns: 30_000 }),
  600_000,
)
