import { it } from 'vitest'
import { clients, comeToNoBan, twoASecondAreBanned } from './back-off-clients.ts'

it.concurrent.each(Object.keys(clients))(
  'eight loops of %s come to fewer strikes than a minute may have, and to no ban, in real seconds',
  (client) => comeToNoBan(client, 1_000),
)

it.concurrent('two requests a second are banned within the minute that strikes count in', () =>
  twoASecondAreBanned(1_000),
)
