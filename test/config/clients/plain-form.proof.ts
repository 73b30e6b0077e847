import { it } from 'vitest'
import { jsonAgrees, yamlAgrees } from './plain-form.ts'

it.each([
  ['JSON', jsonAgrees],
  ['YAML', yamlAgrees],
])(
  'what is taken in plain form is what is exactly read of %s',
  (_, agrees) => agrees({ numRuns: 30_000 }),
  600_000,
)
