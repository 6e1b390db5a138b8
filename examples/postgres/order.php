<?php

// Commit an order and its event together, from PHP with PDO.
//
// usage: php order.php 'pgsql:host=HOST;dbname=DATABASE;user=USER'

declare(strict_types=1);

/** The shop does not accept the order. */
class Refused extends RuntimeException
{
}

/** Inserts an order and its event: both are committed, or neither. */
function placeOrder(PDO $db, string $customer, int $cents): int
{
    $db->beginTransaction();
    try {
        $insert = $db->prepare(
            'INSERT INTO orders(customer, cents) VALUES (?, ?) RETURNING id'
        );
        $insert->execute([$customer, $cents]);
        $order = (int) $insert->fetchColumn();
        $event = ['order' => $order, 'customer' => $customer, 'cents' => $cents];

        $enqueue = $db->prepare("SELECT wherry_enqueue('orders', ?, key => ?)");
        $enqueue->execute([json_encode($event, JSON_THROW_ON_ERROR), (string) $order]);
        if ($cents > 100_000) {
            throw new Refused("order $order is over the credit limit");
        }
        $db->commit();
        return $order;
    } catch (Throwable $error) {
        $db->rollBack();
        throw $error;
    }
}

$db = new PDO($argv[1]);
foreach ([4_200, 420_000] as $cents) {
    try {
        $order = placeOrder($db, 'Zoë "Zed" O\'Hara \\ 漢字', $cents);
        echo "committed: order $order\n";
    } catch (Refused $why) {
        echo "rolled back: {$why->getMessage()}\n";
    }
}
