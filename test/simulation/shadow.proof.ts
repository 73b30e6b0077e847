import { it } from 'vitest'
import { shadowsAgree } from './shadow-world.ts'

it.each(['embedded', 'workers', 'hosts'] as const)(
  'limits that are only tried refuse what they refuse where they are live, of the kind %s',
  (kind) => shadowsAgree(kind, 10),
)
