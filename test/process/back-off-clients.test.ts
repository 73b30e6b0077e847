/** The defaults, with seconds of 100 ms; back-off-clients.proof.ts has real ones. */
import { it } from 'vitest'
import { clients, comeToNoBan, twoASecondAreBanned } from './back-off-clients.ts'

it.each(Object.keys(clients))(
  'eight loops of %s come to fewer strikes than a minute may have, and to no ban',
  (client) => comeToNoBan(client, 100),
)

it('two requests a second are banned within the time that strikes count in', () =>
  twoASecondAreBanned(100))
